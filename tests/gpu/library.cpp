// SPDX-License-Identifier: Apache-2.0
// What the library does on a GPU besides training, against the processor.
#include "backend/cuda/cuda.h"
#include "backend/tridiagonal.h"
#include "gpu/check.h"
#include "gpu/near.h"
#include "gpu/toy.h"

#include <fmt/format.h>
#include <kedge/kedge.h>
#include <unistd.h>

#include <filesystem>
#include <utility>

namespace kedge::test {
namespace {

Matrix transformed(const RelativeMap& map, const Space& space, Device device, Precision precision) {
  const auto path = std::filesystem::temp_directory_path() / fmt::format("kedge-gpu-check-{}.npy", ::getpid());
  transform(map, space, path.string(), {}, {.device = device, .precision = precision});
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
  const auto found = retrieval_ranks(a.view(), b.view(), {}, options.device);
  const bool same = found == retrieval_ranks(a.view(), b.view(), {}, Device::cpu);
  promises.push_back({"ranks of retrieval", same ? "same ranks" : "other ranks", same});
}

/// float64 throughout, so what is left is the order of sums.
void check_statistics(const CheckOptions& options, const Toy& toy, std::vector<CheckPromise>& promises) {
  const Space& space = toy.spaces().back();
  const Moments wanted = compute_moments(space, {}, Device::cpu);
  const Moments found = compute_moments(space, {}, options.device);
  promises.push_back(near<double>("covariance", found.covariance().cells(), wanted.covariance().cells(), 1e-10));
  promises.push_back(near<double>("whitening", make_whitening(wanted, {}, options.device).whitener.cells(),
                                  make_whitening(wanted, {}, Device::cpu).whitener.cells(), 1e-8));
}

/// The targets are eigenvectors, the maps ridges: both are found in other ways there.
void check_consensus(const CheckOptions& options, const Toy& toy, std::vector<CheckPromise>& promises) {
  FitOptions asked;
  asked.method = Method::consensus;
  asked.anchors = options.quick ? 20 : 200;
  asked.support = options.quick ? 300 : 3000;
  const Bundle wanted = fit(toy.spaces(), asked);
  asked.device = options.device;
  const Bundle found = fit(toy.spaces(), asked);
  promises.push_back(near<float>("consensus: targets", found.targets.cells(), wanted.targets.cells(), 1e-6));
  for (const Attachment& own : wanted.spaces) {
    promises.push_back(near<float>(fmt::format("consensus: map of {} values", own.map->input_dim()),
                                   found.map(own.space())->weight().cells(), own.map->weight().cells(), 1e-5));
  }
}

/// What a ridge is made of, at a size where the GPU is used.
void check_tridiagonal(const CheckOptions& options, std::vector<CheckPromise>& promises) {
  const std::size_t dim = options.quick ? 300 : 1100;
  const Matrix rows = quick_random(3 * dim, dim, 8);
  Moments moments({{"rows", dim}});
  const MatrixView<const float> view = rows.view();
  moments.add({&view, 1});
  const Matrix64 covariance = moments.covariance();
  Matrix64 solved[2];
  for (const Device device : {Device::cpu, options.device}) {
    Matrix64& x = (solved[device == Device::cpu ? 0 : 1] = Matrix64(dim, 3));
    for (std::size_t i = 0; i < x.cells().size(); ++i) x.cells()[i] = rows.cells()[i];
    const Tridiagonal tridiagonal(covariance, device);
    tridiagonal.to_inside(x.view());
    tridiagonal.solve(0.1, x.view(), x.view());
    tridiagonal.to_outside(x.view());
  }
  if (options.device != Device::cpu) {
    promises.push_back(near<double>("tridiagonal matrix", solved[1].cells(), solved[0].cells(), 1e-10));
  }
}

}  // namespace

std::vector<CheckPromise> check_library(const CheckOptions& options) {
  const Toy toy = options.quick ? Toy(600, {33, 260}) : Toy(5003, {385, 1281});
  std::vector<CheckPromise> promises;
  check_statistics(options, toy, promises);
  check_tridiagonal(options, promises);
  check_consensus(options, toy, promises);
  check_transform(options, toy, promises);
  check_ranks(options, toy, promises);
  return promises;
}

}  // namespace kedge::test
