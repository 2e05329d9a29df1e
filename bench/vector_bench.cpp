// SPDX-License-Identifier: Apache-2.0
// One embedding of 768 values to 300, as a service that answers one request after another does it: RelativeMap::apply
// of a vector for each similarity, beside apply of a block of one row, and cblas_sgemv on one thread.
#include <benchmark/benchmark.h>
#include <cblas.h>
#include <kedge/kedge.h>

#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kDim = 768;
constexpr std::size_t kAnchors = 300;

kedge::Matrix random_matrix(std::size_t rows, std::size_t cols) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  kedge::Matrix matrix(rows, cols);
  for (float& cell : matrix.cells()) cell = uniform(engine);
  return matrix;
}

kedge::RelativeMap random_map(kedge::Similarity similarity) {
  return {"bench", similarity, random_matrix(kAnchors, kDim), std::vector<float>(kAnchors, 256),
          std::vector<float>(kDim)};
}

void vector_of(benchmark::State& state, kedge::Similarity similarity) {
  const kedge::RelativeMap map = random_map(similarity);
  const kedge::Matrix x = random_matrix(1, kDim);
  std::vector<float> rr(kAnchors);
  for (auto _ : state) {
    map.apply(x.row(0), rr);
    benchmark::ClobberMemory();
  }
}

void block_of(benchmark::State& state, kedge::Similarity similarity) {
  const kedge::RelativeMap map = random_map(similarity);
  const kedge::Matrix x = random_matrix(1, kDim);
  kedge::Matrix rr(1, kAnchors);
  for (auto _ : state) {
    map.apply(x.view(), rr.view());
    benchmark::ClobberMemory();
  }
}

void one_sgemv(benchmark::State& state) {
  const kedge::Matrix weight = random_matrix(kAnchors, kDim);
  const kedge::Matrix x = random_matrix(1, kDim);
  std::vector<float> rr(kAnchors);
  openblas_set_num_threads(1);
  for (auto _ : state) {
    cblas_sgemv(CblasRowMajor, CblasNoTrans, kAnchors, kDim, 1, weight.cells().data(), kDim, x.cells().data(), 1, 0,
                rr.data(), 1);
    benchmark::ClobberMemory();
  }
}

}  // namespace

int main(int argc, char** argv) {
  for (const std::string_view name : kedge::similarity_names()) {
    const kedge::Similarity similarity = kedge::parse_similarity(name);
    benchmark::RegisterBenchmark(("vector/" + std::string(name)).c_str(), vector_of, similarity)
        ->Unit(benchmark::kMicrosecond);
    benchmark::RegisterBenchmark(("block_of_one/" + std::string(name)).c_str(), block_of, similarity)
        ->Unit(benchmark::kMicrosecond);
  }
  benchmark::RegisterBenchmark("one_sgemv", one_sgemv)->Unit(benchmark::kMicrosecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
