// SPDX-License-Identifier: Apache-2.0
#include "anchors/consensus.h"
#include "compute/covariance.h"
#include "compute/threads.h"
#include "map/attach_by.h"
#include "measure.h"
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
    result.emplace_back(joint.of(part.space), WhiteningOptions(), ShrinkageRule::fixed, device);
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
      steps.time("read moments", [&] { return compute_joint_moments(spaces, device, Highest::second); });
  const std::vector<Statistics> statistics =
      steps.time("split moments", [&] { return statistics_of_each(joint, device); });
  const std::vector<Matrix64> supports = steps.time("read the support", [&] { return supports_of(spaces); });
  std::vector<WhiteningBasis> bases;
  std::vector<RidgeRows> rows;
  std::vector<const CentredRows*> centred;
  rows.reserve(spaces.size());
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    const std::string& name = spaces[i].name();
    const Statistics& own = statistics[i];
    bases.push_back(steps.time("whitening basis " + name, [&] { return own.basis(); }));
    rows.push_back(steps.time("centre " + name, [&] { return RidgeRows(supports[i], own); }));
    centred.push_back(&rows.back().centred());
    (void)steps.time("prepare " + name,
                     [&] { return rows.back().prepare(Similarity::wip, own, true, bases.back()), true; });
  }
  const ConsensusResult consensus = steps.time("find consensus", [&] {
    return find_consensus({bases, centred, kAnchors}, joint, {}, device);
  });
  const RidgeTargets targets = steps.time("targets", [&] { return RidgeTargets(consensus.targets); });
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    const std::string& name = spaces[i].name();
    const RidgeSupport support = steps.time("cross products " + name, [&] { return RidgeSupport(targets, rows[i]); });
    (void)steps.time("map " + name, [&] { return support.map(Similarity::wip, statistics[i], {}); });
    (void)steps.time("decoder " + name, [&] { return support.decoder(name); });
  }
  return steps.seconds();
}

/// What finding the directions is made of.
nlohmann::ordered_json pieces(std::span<const Space> spaces, Device device) {
  Steps steps;
  const Moments joint = compute_joint_moments(spaces, device, Highest::second);
  std::vector<std::shared_ptr<const ChangeOfBasis>> whiteners;
  std::vector<std::size_t> dims;
  for (const Statistics& own : statistics_of_each(joint, device)) {
    whiteners.push_back(own.basis().whitener());
    dims.push_back(own.dim());
  }
  const auto covariance = steps.time("whitened covariance", [&] {
    return make_block_covariance(joint.scatter(), static_cast<double>(joint.rows()), whiteners, dims, device);
  });
  (void)steps.time("directions", [&] { return covariance->leading(kAnchors); });
  const Matrix64 widest = joint.of(spaces[1].name()).covariance();
  (void)steps.time("eigenvectors 1280", [&] { return eigh(widest, device).values.size(); });
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
