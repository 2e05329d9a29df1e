// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda.h"
#include "backend/threads.h"
#include "backend/tridiagonal.h"
#include "map/ridge_attach.h"
#include "measure.h"
#include "solve/consensus.h"
#include "space/sum_rows.h"

#include <kedge/kedge.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kedge::bench {
namespace {

constexpr std::size_t kSupport = 5000, kAnchors = 300;

/// The seconds of each step, in order; the first round also starts libraries and warms memory.
class Steps {
 public:
  template <class Step>
  auto time(const std::string& step, const Step& work) {
    const auto start = Clock::now();
    auto result = work();
    seconds_[step] = seconds_since(start);
    return result;
  }
  [[nodiscard]] const nlohmann::ordered_json& seconds() const { return seconds_; }

 private:
  nlohmann::ordered_json seconds_;
};

std::vector<Statistics> statistics_of_each(const Moments& joint, Device device) {
  std::vector<Statistics> result;
  for (const Moments::Part& part : joint.parts()) {
    result.push_back(statistics_of(joint.of(part.space), {}, ShrinkageRule::fixed, device));
  }
  return result;
}

std::vector<Matrix64> supports_of(std::span<const Space> spaces) {
  std::vector<std::int64_t> ids(kSupport);
  std::iota(ids.begin(), ids.end(), std::int64_t{0});
  std::vector<Matrix64> supports;
  for (const Space& space : spaces) supports.push_back(space.gather(ids));
  return supports;
}

nlohmann::ordered_json fit_by_steps(std::span<const Space> spaces, Device device) {
  Steps steps;
  const Moments joint =
      steps.time("read moments", [&] { return compute_joint_moments(spaces, {}, device, Highest::second); });
  std::vector<Statistics> statistics = steps.time("split moments", [&] { return statistics_of_each(joint, device); });
  const std::vector<Matrix64> supports = steps.time("read the support", [&] { return supports_of(spaces); });
  const std::vector<WhiteningBasis> bases = steps.time("whitening bases", [&] {
    std::vector<WhiteningBasis> found;
    for (Statistics& own : statistics) found.push_back(*(own.basis = basis_of(own)));
    return found;
  });
  const Consensus consensus = steps.time("find consensus", [&] {
    return find_consensus({{}, supports, kAnchors, bases}, joint, {}, device);
  });
  const RidgeTargets targets = steps.time("targets", [&] { return RidgeTargets(consensus.targets); });
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    const std::string& name = spaces[i].name();
    const RidgeSupport rows = steps.time(
        "cross products " + name, [&] { return RidgeSupport(targets, supports[i], statistics[i].moments.mean()); });
    (void)steps.time("map " + name, [&] { return rows.map(Similarity::wip, statistics[i], {}); });
    (void)steps.time("decoder " + name, [&] { return rows.decoder(name); });
  }
  return steps.seconds();
}

/// On the GPU and elsewhere: what finding a consensus and a map is made of.
nlohmann::ordered_json pieces(std::span<const Space> spaces, Device device) {
  Steps steps;
  const Moments joint = compute_joint_moments(spaces, {}, device, Highest::second);
  const std::vector<Statistics> statistics = statistics_of_each(joint, device);
  std::vector<WhiteningBasis> bases;
  for (const Statistics& own : statistics) bases.push_back(*basis_of(own));
  Matrix64 whitened = steps.time("whitened covariance", [&] { return whitened_covariance(joint, bases); });
  for (std::size_t r = 0; r < whitened.rows(); ++r) {
    for (std::size_t c = 0; c < r; ++c) whitened.row(r)[c] = whitened.row(c)[r];
  }
  if (device == Device::cuda) {
    (void)steps.time("eigenvectors", [&] { return cuda::eigh_largest(whitened, kAnchors).values.size(); });
    const Matrix64 widest = shrunk_covariance(statistics[1].moments, {});
    (void)steps.time("tridiagonal 1280, cuda", [&] { return Tridiagonal(widest, Device::cuda).dim(); });
    (void)steps.time("tridiagonal 1280, processor", [&] { return Tridiagonal(widest).dim(); });
    (void)steps.time("eigenvalues of tridiagonal 1280", [&, t = Tridiagonal(widest)] { return t.eigenvalues(); });
    (void)steps.time("eigenvectors 1280", [&] { return eigh(widest, Device::cuda).values.size(); });
  }
  return steps.seconds();
}

}  // namespace

nlohmann::json measure_consensus(const std::string& folder, Device device) {
  const Work work;
  require_device(device);
  const std::vector<Space> spaces = open_spaces(folder);
  nlohmann::json found = {{"device", to_string(device)}};
  for (const char* round : {"first", "second", "third"}) {
    found["steps"][round] = nlohmann::json(fit_by_steps(spaces, device));
    found["pieces"][round] = nlohmann::json(pieces(spaces, device));
  }
  return found;
}

}  // namespace kedge::bench
