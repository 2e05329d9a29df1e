// SPDX-License-Identifier: Apache-2.0
// How close `transform` comes to one cblas_sgemm of the same size, in the same run. Both report GFLOP/s of the product.
#include <benchmark/benchmark.h>
#include <cblas.h>
#include <kedge/kedge.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr std::size_t kRows = 2'000'000;
constexpr std::size_t kDim = 256;
constexpr std::size_t kAnchors = 300;
constexpr double kFlops = 2.0 * kRows * kDim * kAnchors;

kedge::Matrix random_matrix(std::size_t rows, std::size_t cols) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  kedge::Matrix matrix(rows, cols);
  for (float& cell : matrix.cells()) cell = uniform(engine);
  return matrix;
}

kedge::RelativeMap random_map() {
  return {"bench", kedge::Similarity::wip, random_matrix(kAnchors, kDim), std::vector<float>(kAnchors),
          std::vector<float>(kDim)};
}

/// Files of the benchmark live where there is room: the folder of KEDGE_BENCH_DIR, or the current one.
std::string file(const char* name) {
  const char* folder = std::getenv("KEDGE_BENCH_DIR");
  return (std::filesystem::path(folder != nullptr ? folder : ".") / name).string();
}

/// A float16 file of random values: any bits whose exponent is not all ones are finite.
const std::string& half_file() {
  static const std::string path = [] {
    const std::string name = file("bench_input.npy");
    std::string header = "{'descr': '<f2', 'fortran_order': False, 'shape': (2000000, 256), }";
    header.append(128 - 10 - header.size() - 1, ' ').push_back('\n');
    std::ofstream out(name, std::ios::binary);
    out.write("\x93NUMPY\x01\x00", 8);
    const char length[] = {static_cast<char>(header.size()), 0};
    out.write(length, 2).write(header.data(), static_cast<std::streamsize>(header.size()));
    std::mt19937 engine(2);
    std::vector<std::uint16_t> block(1000 * kDim);
    for (std::uint16_t& half : block) half = static_cast<std::uint16_t>(0x3000 | (engine() & 0x8fff));  // +-0.125 to 2
    for (std::size_t i = 0; i < kRows / 1000; ++i) {
      out.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(block.size() * 2));
    }
    return name;
  }();
  return path;
}

void report(benchmark::State& state) {
  state.counters["GFLOP/s"] = benchmark::Counter(kFlops / 1e9, benchmark::Counter::kIsIterationInvariantRate);
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kRows));
}

/// The yardstick: the whole product in one call, all of it in memory that was touched before.
void one_sgemm(benchmark::State& state) {
  const kedge::Matrix w = random_matrix(kAnchors, kDim);
  kedge::Matrix x(kRows, kDim);
  for (std::size_t i = 0; i < x.cells().size(); ++i) x.cells()[i] = static_cast<float>(i % 1000) / 1000;
  kedge::Matrix y(kRows, kAnchors);
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, kRows, kAnchors, kDim, 1, x.cells().data(), kDim,
                w.cells().data(), kDim, 0, y.cells().data(), kAnchors);
    benchmark::ClobberMemory();
  }
  report(state);
}

/// The product alone as kedge runs it, from memory to memory.
void apply_in_memory(benchmark::State& state) {
  const kedge::RelativeMap map = random_map();
  kedge::Matrix x(kRows, kDim);
  for (std::size_t i = 0; i < x.cells().size(); ++i) x.cells()[i] = static_cast<float>(i % 1000) / 1000;
  kedge::Matrix y(kRows, kAnchors);
  for (auto _ : state) {
    map.apply(std::as_const(x).view(), y.view());
    benchmark::ClobberMemory();
  }
  report(state);
}

/// The whole command: float16 from a file, checked, converted, multiplied, written to a file that appears at the end.
void transform_file(benchmark::State& state) {
  const kedge::RelativeMap map = random_map();
  const kedge::Space input("bench", kedge::open_rows(half_file()));
  const std::string output = file("bench_output.npy");
  for (auto _ : state) {
    kedge::transform(map, input, output);
    state.PauseTiming();
    std::filesystem::remove(output);
    state.ResumeTiming();
  }
  report(state);
}

BENCHMARK(one_sgemm)->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(5);
BENCHMARK(apply_in_memory)->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(5);
BENCHMARK(transform_file)->Unit(benchmark::kMillisecond)->UseRealTime()->MinTime(5);

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  openblas_set_num_threads(static_cast<int>(kedge::threads()));
  benchmark::RunSpecifiedBenchmarks();
  std::filesystem::remove(file("bench_input.npy"));
  return 0;
}
