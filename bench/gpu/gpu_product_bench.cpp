// SPDX-License-Identifier: Apache-2.0
// What the matrix products of a step of PARAM take with cuBLAS as it chooses by itself, and with each algorithm that
// cuBLASLt proposes: kedge_gpu_product_bench [SUPPORT...]. One line for each product, best algorithms first.
#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}
void check(cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) throw std::runtime_error(cublasGetStatusString(status));
}

constexpr std::size_t kWorkspace = std::size_t{32} << 20;
constexpr int kInGraph = 20, kGraphs = 5;

struct Gpu {
  cudaStream_t stream = nullptr;
  cublasHandle_t blas = nullptr;
  cublasLtHandle_t lt = nullptr;
  void* workspace = nullptr;
  float *a = nullptr, *b = nullptr, *c = nullptr;

  explicit Gpu(std::size_t floats) {
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(cudaMalloc(&workspace, kWorkspace));
    for (float** matrix : {&a, &b, &c}) {
      check(cudaMalloc(reinterpret_cast<void**>(matrix), floats * sizeof(float)));
      check(cudaMemset(*matrix, 0x3c, floats * sizeof(float)));  // small numbers, in float32 and in bfloat16
    }
    check(cublasCreate(&blas));
    check(cublasSetStream(blas, stream));
    check(cublasSetWorkspace(blas, workspace, kWorkspace));
    check(cublasLtCreate(&lt));
  }
};

/// Microseconds of one call, by the best of a few graphs of many.
double microseconds(const Gpu& gpu, const std::function<void()>& call) {
  call();
  check(cudaStreamSynchronize(gpu.stream));
  check(cudaStreamBeginCapture(gpu.stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < kInGraph; ++i) call();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(gpu.stream, &graph));
  cudaGraphExec_t ready = nullptr;
  check(cudaGraphInstantiate(&ready, graph, 0));
  cudaEvent_t start = nullptr, end = nullptr;
  check(cudaEventCreate(&start));
  check(cudaEventCreate(&end));
  float best = 1e30F;
  for (int i = 0; i <= kGraphs; ++i) {
    check(cudaEventRecord(start, gpu.stream));
    check(cudaGraphLaunch(ready, gpu.stream));
    check(cudaEventRecord(end, gpu.stream));
    check(cudaStreamSynchronize(gpu.stream));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, start, end));
    if (i > 0) best = std::min(best, ms);
  }
  check(cudaEventDestroy(start));
  check(cudaEventDestroy(end));
  check(cudaGraphExecDestroy(ready));
  check(cudaGraphDestroy(graph));
  return 1e3 * best / kInGraph;
}

/// c = a b + beta c by row, `count` times on matrices one after the other; strides as in the step.
struct Product {
  std::string name;
  bool turn_a, turn_b;
  int rows, cols, inner;
  int stride_a, stride_b, stride_c;
  float beta = 0;
  int count = 1;
  bool narrow = false;

  [[nodiscard]] cudaDataType_t type() const { return narrow ? CUDA_R_16BF : CUDA_R_32F; }
  [[nodiscard]] cublasComputeType_t compute() const {
    return narrow ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
  }
  [[nodiscard]] cublasOperation_t left() const { return turn_b ? CUBLAS_OP_T : CUBLAS_OP_N; }
  [[nodiscard]] cublasOperation_t right() const { return turn_a ? CUBLAS_OP_T : CUBLAS_OP_N; }
  [[nodiscard]] long long size_a() const { return static_cast<long long>(stride_a) * (turn_a ? inner : rows); }
  [[nodiscard]] long long size_b() const { return static_cast<long long>(stride_b) * (turn_b ? cols : inner); }
  [[nodiscard]] long long size_c() const { return static_cast<long long>(stride_c) * rows; }
};

double by_default(const Gpu& gpu, const Product& p) {
  const float one = 1;
  return microseconds(gpu, [&] {
    check(cublasGemmStridedBatchedEx(gpu.blas, p.left(), p.right(), p.cols, p.rows, p.inner, &one, gpu.b, p.type(),
                                     p.stride_b, p.size_b(), gpu.a, p.type(), p.stride_a, p.size_a(), &p.beta, gpu.c,
                                     CUDA_R_32F, p.stride_c, p.size_c(), p.count, p.compute(), CUBLAS_GEMM_DEFAULT));
  });
}

cublasLtMatrixLayout_t layout(cudaDataType_t type, bool turned, int rows, int cols, int stride, int count,
                              long long size) {
  cublasLtMatrixLayout_t made = nullptr;
  check(cublasLtMatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(turned ? cols : rows),
                                   static_cast<std::uint64_t>(turned ? rows : cols), stride));
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)));
  check(cublasLtMatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &size, sizeof(size)));
  return made;
}

std::string describe(const cublasLtMatmulAlgo_t& algorithm, int place) {
  const auto value = [&](cublasLtMatmulAlgoConfigAttributes_t what) {
    std::uint32_t found = 0;
    std::size_t written = 0;
    (void)cublasLtMatmulAlgoConfigGetAttribute(&algorithm, what, &found, sizeof(found), &written);
    if (written < sizeof(found)) found &= 0xffffU;
    return found;
  };
  return fmt::format("#{} id {} tile {} stages {} split {} scheme {} swizzle {} cluster {}", place,
                     value(CUBLASLT_ALGO_CONFIG_ID), value(CUBLASLT_ALGO_CONFIG_TILE_ID),
                     value(CUBLASLT_ALGO_CONFIG_STAGES_ID), value(CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
                     value(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME), value(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
                     value(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
}

struct Found {
  double us;
  std::string what;
};

std::vector<Found> by_algorithm(const Gpu& gpu, const Product& p) {
  cublasLtMatmulDesc_t product = nullptr;
  check(cublasLtMatmulDescCreate(&product, p.compute(), CUDA_R_32F));
  const auto left = p.left(), right = p.right();
  check(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof(left)));
  check(cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof(right)));
  const auto b = layout(p.type(), p.turn_b, p.cols, p.inner, p.stride_b, p.count, p.size_b());
  const auto a = layout(p.type(), p.turn_a, p.inner, p.rows, p.stride_a, p.count, p.size_a());
  const auto c = layout(CUDA_R_32F, false, p.cols, p.rows, p.stride_c, p.count, p.size_c());
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference));
  check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                             sizeof(kWorkspace)));
  constexpr int kMost = 40;
  std::vector<cublasLtMatmulHeuristicResult_t> proposed(kMost);
  int count = 0;
  check(cublasLtMatmulAlgoGetHeuristic(gpu.lt, product, b, a, c, c, preference, kMost, proposed.data(), &count));
  std::vector<Found> found;
  const float one = 1;
  for (int i = 0; i < count; ++i) {
    const auto& each = proposed[static_cast<std::size_t>(i)];
    if (each.state != CUBLAS_STATUS_SUCCESS) continue;
    try {
      const double us = microseconds(gpu, [&] {
        check(cublasLtMatmul(gpu.lt, product, &one, gpu.b, b, gpu.a, a, &p.beta, gpu.c, c, gpu.c, c, &each.algo,
                             gpu.workspace, kWorkspace, gpu.stream));
      });
      found.push_back({us, describe(each.algo, i)});
    } catch (const std::exception&) {
      (void)cudaGetLastError();
    }
  }
  return found;
}

void report(const Gpu& gpu, const Product& p) {
  const double usual = by_default(gpu, p);
  auto found = by_algorithm(gpu, p);
  const double first = found.empty() ? 0 : found.front().us;
  std::ranges::sort(found, {}, &Found::us);
  const double flops = 2.0 * p.rows * p.cols * p.inner * p.count;
  fmt::print("{:<22} {} x {} x {} (x{}){}: cublas {:.1f} us ({:.0f} TFLOP/s), lt first {:.1f}", p.name, p.rows, p.cols,
             p.inner, p.count, p.narrow ? " bf16" : "", usual, flops / usual / 1e6, first);
  for (std::size_t i = 0; i < std::min<std::size_t>(found.size(), 4); ++i) {
    fmt::print("\n    {:.1f} us {}", found[i].us, found[i].what);
  }
  fmt::print("\n");
  std::fflush(stdout);
}

/// The same products of all spaces in one call.
void report_grouped(const Gpu& gpu, const std::string& name, const std::vector<Product>& all) {
  std::vector<cublasOperation_t> left, right;
  std::vector<int> cols, rows, inner, sa, sb, sc, sizes;
  std::vector<float> ones, betas;
  std::vector<const void*> tables[2];
  std::vector<void*> to;
  long long at = 0;
  for (const Product& p : all) {
    left.push_back(p.left());
    right.push_back(p.right());
    cols.push_back(p.cols);
    rows.push_back(p.rows);
    inner.push_back(p.inner);
    sa.push_back(p.stride_a);
    sb.push_back(p.stride_b);
    sc.push_back(p.stride_c);
    sizes.push_back(1);
    ones.push_back(1);
    betas.push_back(p.beta);
    tables[0].push_back(gpu.b + at);
    tables[1].push_back(gpu.a + at);
    to.push_back(gpu.c + at);
    at += std::max({p.size_a(), p.size_b(), p.size_c()}) / 256 * 256 + 256;
  }
  void** device = nullptr;
  const std::size_t n = all.size(), bytes = n * sizeof(void*);
  check(cudaMalloc(reinterpret_cast<void**>(&device), 3 * bytes));
  check(cudaMemcpy(static_cast<void*>(device), tables[0].data(), bytes, cudaMemcpyHostToDevice));
  check(cudaMemcpy(static_cast<void*>(device + n), tables[1].data(), bytes, cudaMemcpyHostToDevice));
  check(cudaMemcpy(static_cast<void*>(device + 2 * n), to.data(), bytes, cudaMemcpyHostToDevice));
  try {
    const double us = microseconds(gpu, [&] {
      check(cublasGemmGroupedBatchedEx(gpu.blas, left.data(), right.data(), cols.data(), rows.data(), inner.data(),
                                       ones.data(), device, CUDA_R_32F, sb.data(), device + n, CUDA_R_32F, sa.data(),
                                       betas.data(), device + 2 * n, CUDA_R_32F, sc.data(), static_cast<int>(n),
                                       sizes.data(), CUBLAS_COMPUTE_32F_FAST_TF32));
    });
    fmt::print("{:<22} grouped: {:.1f} us\n", name, us);
  } catch (const std::exception& problem) {
    (void)cudaGetLastError();
    fmt::print("{:<22} grouped: {}\n", name, problem.what());
  }
  std::fflush(stdout);
  check(cudaFree(static_cast<void*>(device)));
}

constexpr int kBatch = 1024, kAnchors = 300, kWidth = 2432, kDims[] = {384, 1280, 768};

void survey(const Gpu& gpu, int support) {
  for (const bool narrow : {false, true}) {
    report(gpu, {"mixture x support", false, false, kAnchors, kWidth, support, support, kWidth, kWidth, 0, 1, narrow});
    report(gpu, {"the same, turned", false, true, kAnchors, kWidth, support, support, support, kWidth, 0, 1, narrow});
    report(gpu, {"back to the mixture", false, true, kAnchors, support, kWidth, kWidth, kWidth, support, 0, 1, narrow});
  }
}

void survey_small(const Gpu& gpu) {
  std::vector<Product> rows, back, grams, turns;
  for (const int dim : kDims) {
    rows.push_back({"rows x anchors", false, true, kBatch, kAnchors, dim, kWidth, kWidth, kAnchors});
    back.push_back({"back to anchors", true, false, kAnchors, dim, kBatch, kAnchors, kWidth, kWidth, 1});
    grams.push_back({"gram", false, true, kAnchors, kAnchors, dim, kWidth, kWidth, kAnchors});
    turns.push_back({"gram x anchors", false, false, kAnchors, dim, kAnchors, kAnchors, kWidth, dim});
  }
  for (const auto& all : {rows, back, grams, turns}) {
    for (const Product& each : all) report(gpu, each);
    report_grouped(gpu, all.front().name, all);
  }
  report(gpu, {"cosines", false, true, kBatch, kBatch, kAnchors, kAnchors, kAnchors, kBatch, 0, 3});
  for (const int count : {1, 3}) {
    report(gpu, {"cosines back", false, false, kBatch, kAnchors, kBatch, kBatch, kAnchors, kAnchors, 0, count});
    report(gpu, {"turned cosines back", true, false, kBatch, kAnchors, kBatch, kBatch, kAnchors, kAnchors, 0, count});
    report(gpu, {"back, rr turned", false, true, kBatch, kAnchors, kBatch, kBatch, kBatch, kAnchors, 0, count});
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<int> supports{5'000, 50'000};
    if (argc > 1) supports.clear();
    for (int i = 1; i < argc; ++i) supports.push_back(std::atoi(argv[i]));
    const int largest = *std::ranges::max_element(supports);
    const Gpu gpu(static_cast<std::size_t>(std::max(largest, 5'000)) * kWidth);
    survey_small(gpu);
    for (const int support : supports) survey(gpu, support);
    return 0;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "{}\n", problem.what());
    return 1;
  }
}
