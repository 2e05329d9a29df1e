// SPDX-License-Identifier: Apache-2.0
// What the library does on a GPU besides training, against the processor.
#include "compute/covariance.h"
#include "gpu/check.h"
#include "gpu/near.h"
#include "gpu/toy.h"
#include "space/whitening.h"

#include <fmt/format.h>
#include <kedge/kedge.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

namespace kedge::test {
namespace {

Matrix transformed(const RelativeMap& map, const Space& space, Device device, Precision precision) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("kedge-gpu-check-{}.npy", ::getpid());
  transform(map, space, path.string(), {.device = device, .precision = precision});
  Matrix rr = Space("rr", open_rows(path.string())).read_all();
  std::filesystem::remove(path);
  return rr;
}

void check_transform(const CheckOptions& options, const Toy& toy, std::vector<CheckPromise>& promises) {
  const Space& space = toy.spaces().front();
  const std::size_t anchors = options.quick ? 37 : 300;
  const Matrix bias = quick_random(1, anchors, 6);
  for (const Similarity similarity : {Similarity::wip, Similarity::cosine}) {
    const RelativeMap map(space.name(), similarity, quick_random(anchors, space.dim(), 5),
                          {bias.cells().begin(), bias.cells().end()}, std::vector<float>(space.dim()));
    const Matrix wanted = transformed(map, space, Device::cpu, Precision::fp32);
    for (const auto& [precision, tolerance] :
         {std::pair{Precision::fp32, kFp32Tolerance}, std::pair{Precision::tf32, kTf32Tolerance}}) {
      const Matrix found = transformed(map, space, options.device, precision);
      promises.push_back(
          near<float>(fmt::format("transform of a file, {}, {}", to_string(similarity), to_string(precision)),
                      found.cells(), wanted.cells(), tolerance));
    }
  }
}

void check_ranks(const CheckOptions& options, const Toy& toy, std::vector<CheckPromise>& promises) {
  const Matrix a = toy.spaces().front().read_all();
  Matrix b = quick_random(a.rows(), a.cols(), 7);
  for (std::size_t i = 0; i < b.cells().size(); ++i) b.cells()[i] = a.cells()[i] + 2 * b.cells()[i];
  const auto found = retrieval_ranks(a.view(), b.view(), options.device);
  const bool same = found == retrieval_ranks(a.view(), b.view(), Device::cpu);
  promises.push_back({"ranks of retrieval", same ? "same ranks" : "other ranks", same});
}

/// Both are float64, so they differ by the order of sums alone.
void check_statistics(const CheckOptions& options, const Toy& toy, std::vector<CheckPromise>& promises) {
  const Space& space = toy.spaces().back();
  const Moments wanted = compute_moments(space, Device::cpu);
  const Moments found = compute_moments(space, options.device);
  promises.push_back(near<double>("covariance", found.covariance().cells(), wanted.covariance().cells(), 1e-10));
  promises.push_back(near<double>("whitening", make_whitening(wanted, {}, options.device).whitener.cells(),
                                  make_whitening(wanted, {}, Device::cpu).whitener.cells(), 1e-8));
}

/// The targets are eigenvectors and the maps are ridges; a GPU finds both in other ways.
void check_consensus(const CheckOptions& options, const Toy& toy, std::vector<CheckPromise>& promises) {
  FitOptions asked;
  asked.method = Consensus{};
  asked.anchors = options.quick ? 20 : 200;
  asked.support = options.quick ? 300 : 3000;
  const Bundle wanted = fit(toy.spaces(), asked);
  asked.device = options.device;
  const Bundle found = fit(toy.spaces(), asked);
  promises.push_back(
      near<float>("consensus: targets", found.anchors().targets.cells(), wanted.anchors().targets.cells(), 1e-6));
  for (const Attachment& own : wanted.spaces()) {
    promises.push_back(near<float>(fmt::format("consensus: map of {} values", own.map->input_dim()),
                                   found.map(own.space())->weight().cells(), own.map->weight().cells(), 1e-5));
  }
}

/// What a ridge is made of, large enough for the GPU: whitened by a Cholesky factor, by eigenvectors, and not at all.
void check_ridge(const CheckOptions& options, std::vector<CheckPromise>& promises) {
  if (options.device == Device::cpu) return;
  const std::size_t dim = options.quick ? 300 : 1100, count = 3 * dim;
  const Matrix rows = quick_random(count, dim, 8), targets = quick_random(count, 7, 9);
  Moments moments({{"rows", dim}});
  const MatrixView<const float> view = rows.view();
  moments.add({&view, 1});
  const auto widen = [](const Matrix& narrow) {
    Matrix64 wide(narrow.rows(), narrow.cols());
    std::ranges::copy(narrow.cells(), wide.cells().begin());
    return wide;
  };
  const Matrix64 wide_targets = widen(targets);
  const std::vector<double> mean(dim, 0.1);
  const auto here = centre_rows(widen(rows), mean, Device::cpu), there = centre_rows(widen(rows), mean, options.device);
  const auto add = [&](const std::string& what, std::span<const double> found, std::span<const double> wanted) {
    promises.push_back(near<double>("ridge: " + what, found, wanted, 1e-10));
  };
  add("means", there->means(), here->means());
  add("mean squares", there->mean_squares(), here->mean_squares());
  const Matrix64 cross[] = {here->cross(wide_targets.view()), there->cross(wide_targets.view())};
  add("cross products", cross[1].cells(), cross[0].cells());
  Matrix64 weights(7, dim);
  for (std::size_t r = 0; r < 7; ++r) {
    for (std::size_t c = 0; c < dim; ++c) weights.row(r)[c] = cross[0].row(c)[r];
  }
  add("products with weights", there->times(weights.view()).cells(), here->times(weights.view()).cells());
  const std::shared_ptr<const ChangeOfBasis> whiteners[] = {nullptr, WhiteningBasis(moments, {}).whitener(),
                                                            WhiteningBasis(moments, {}, Device::cpu, 0.5).whitener()};
  for (const char* name : {"as it is", "whitened", "half-whitened"}) {
    const auto& whitener = whiteners[name[0] == 'a' ? 0 : name[0] == 'w' ? 1 : 2];
    Matrix64 solved[2];
    for (const bool on_gpu : {false, true}) {
      const auto gram = (on_gpu ? there : here)->decompose(whitener);
      Matrix64& x = (solved[on_gpu ? 1 : 0] = cross[0]);
      gram->to_inside(x.view());
      gram->solve(0.1, x.view(), x.view());
      gram->to_outside(x.view());
    }
    add(fmt::format("solution, {}", name), solved[1].cells(), solved[0].cells());
  }
}

}  // namespace

std::vector<CheckPromise> check_library(const CheckOptions& options) {
  const Toy toy = options.quick ? Toy(600, {33, 260}) : Toy(5003, {385, 1281});
  std::vector<CheckPromise> promises;
  check_statistics(options, toy, promises);
  check_ridge(options, promises);
  check_consensus(options, toy, promises);
  check_transform(options, toy, promises);
  check_ranks(options, toy, promises);
  return promises;
}

}  // namespace kedge::test
