// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "compute/cuda/operations.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace kedge::cuda {
namespace {

constexpr const char* kMultiplying = "to multiply matrices";
constexpr const char* kDescribing = "to describe a product";
constexpr const char* kChoosing = "to choose an algorithm for a product";

cublasLtMatrixLayoutOpaque_t describe(ConstPanel panel) {
  cublasLtMatrixLayoutOpaque_t layout{};
  // A panel of one row may have any stride, but cuBLAS wants one that holds a row.
  const auto stride = static_cast<std::int64_t>(std::max(panel.stride, panel.cols));
  check(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, panel.cols, panel.rows, stride), kDescribing);
  return layout;
}

template <class T>
void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublasLtMatmulDescSetAttribute(&product, attribute, static_cast<const void*>(&value), sizeof value),
        kDescribing);
}

cublasLtMatmulDescOpaque_t describe(Precision precision, cublasOperation_t turn_first, cublasOperation_t turn_second) {
  cublasLtMatmulDescOpaque_t product{};
  check(cublasLtMatmulDescInit(&product, compute_type(precision), CUDA_R_32F), kDescribing);
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, turn_first);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, turn_second);
  return product;
}

/// The settings below were measured on compute capability 9.0.
bool is_hopper() {
  static const bool found = [] {
    int device = 0, major = 0;
    check(cudaGetDevice(&device), "to be asked for");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "to report its capability");
    return major == 9;
  }();
  return found;
}

struct Setting {
  cublasLtMatmulTile_t tile;
  cublasLtClusterShape_t cluster;
  bool shared_inner;  ///< blocks share the inner size, as tiles are too few to keep all busy
};

/// What was faster than cuBLASLt's own choice on an H200, for 300 rows, 2,432 columns and an inner size of 5,000 or
/// 50,000, and serves shapes that are cut into tiles alike. With its own choice, a step of PARAM with so many support
/// rows takes 2 % or 10 % longer. cuBLAS sees the columns of c as rows: a tile is as many of them high.
std::optional<Setting> setting_for(const Product& p) {
  constexpr std::size_t kLeast = 257, kMost = 384;  // rows of c: three tiles of 128, five or six of 64
  constexpr std::size_t kLong = 16'384;
  constexpr std::size_t kOneWave = 4'096, kMoreThanOne = 5'633;  // columns in tiles of 256 x 64, on 132 multiprocessors
  const std::size_t columns = p.c.cols;
  // These kernels need rows that begin on 16 bytes, which cuBLASLt does not promise to check before it runs them.
  if (p.a.stride % 4 != 0 || p.b.stride % 4 != 0 || p.c.stride % 4 != 0) return {};
  if (p.turn_a != CUBLAS_OP_N || p.turn_b != CUBLAS_OP_T || p.c.rows < kLeast || p.c.rows > kMost) return {};
  if (p.inner >= kLong) {
    if (columns >= kLong) return {};
    return Setting{CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_CLUSTER_SHAPE_4x1x1, true};
  }
  if (columns >= kLong) return Setting{CUBLASLT_MATMUL_TILE_256x128, CUBLASLT_CLUSTER_SHAPE_1x2x1, false};
  if (columns < kOneWave || columns >= kMoreThanOne) return {};
  return Setting{CUBLASLT_MATMUL_TILE_256x64, CUBLASLT_CLUSTER_SHAPE_2x2x1, false};
}

/// False if this cuBLASLt has no such kernel.
bool make(const Lane& lane, const Setting& setting, cublasLtMatmulAlgo_t& algorithm) {
  constexpr int kHopperTf32 = 43;  // cuBLASLt's number of its kernels for tf32 on Hopper
  const auto set_to = [&](cublasLtMatmulAlgoConfigAttributes_t what, auto value) {
    return cublasLtMatmulAlgoConfigSetAttribute(&algorithm, what, &value, sizeof value) == CUBLAS_STATUS_SUCCESS;
  };
  return cublasLtMatmulAlgoInit(lane.light(), CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F,
                                CUDA_R_32F, CUDA_R_32F, kHopperTf32, &algorithm) == CUBLAS_STATUS_SUCCESS &&
         set_to(CUBLASLT_ALGO_CONFIG_TILE_ID, static_cast<std::uint32_t>(setting.tile)) &&
         set_to(CUBLASLT_ALGO_CONFIG_STAGES_ID, static_cast<std::uint32_t>(CUBLASLT_MATMUL_STAGES_32xAUTO)) &&
         set_to(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, static_cast<std::uint16_t>(setting.cluster)) &&
         set_to(CUBLASLT_ALGO_CONFIG_SPLITK_NUM, std::int32_t{setting.shared_inner ? -1 : 1}) &&
         set_to(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                static_cast<std::uint32_t>(setting.shared_inner ? CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                                                : CUBLASLT_REDUCTION_SCHEME_NONE));
}

/// In tf32, by a setting of our own. False, and nothing is queued, if none is known or cuBLASLt refuses it.
bool multiply_large(const Lane& lane, const Product& p) {
  const auto setting = setting_for(p);
  cublasLtMatmulAlgo_t algorithm{};
  if (!setting || !is_hopper() || !is_aligned(p) || !make(lane, *setting, algorithm)) return false;
  auto product = describe(Precision::tf32, p.turn_b, p.turn_a);
  auto b = describe(p.b), a = describe(p.a), c = describe(p.c);
  cublasLtMatmulHeuristicResult_t checked{};
  if (cublasLtMatmulAlgoCheck(lane.light(), &product, &b, &a, &c, &c, &algorithm, &checked) != CUBLAS_STATUS_SUCCESS ||
      checked.workspaceSize > Lane::kWorkspaceBytes) {
    return false;
  }
  check(cublasLtMatmul(lane.light(), &product, &p.alpha, p.b.data, &b, p.a.data, &a, &p.beta, p.c.data, &c, p.c.data,
                       &c, &algorithm, lane.workspace(), Lane::kWorkspaceBytes, lane.stream()),
        kMultiplying);
  return true;
}

/// The largest power of two, at most 256, that the address is a multiple of. Odd dims begin their panels anywhere.
std::uint32_t alignment(const float* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256U;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

/// By what cuBLASLt judges to be fastest. False if it knows no way.
bool try_affine(const Lane& lane, ConstPanel x, ConstPanel w, ConstPanel b, Precision precision, Panel y) {
  // y^T = w x^T + b by columns: the bias runs down them, as the epilogue wants it.
  auto product = describe(precision, CUBLAS_OP_T, CUBLAS_OP_N);
  set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(b.data));
  auto from = describe(x), by = describe(w), to = describe(y);
  cublasLtMatmulPreferenceOpaque_t preference{};
  check(cublasLtMatmulPreferenceInit(&preference), kChoosing);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value), kChoosing);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(Lane::kWorkspaceBytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(w.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(x.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(y.data));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(y.data));
  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(lane.light(), &product, &by, &from, &to, &to, &preference, 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return false;
  check(status, kChoosing);
  check(found.state, kChoosing);
  const float one = 1, zero = 0;
  check(cublasLtMatmul(lane.light(), &product, &one, w.data, &by, x.data, &from, &zero, y.data, &to, y.data, &to,
                       &found.algo, lane.workspace(), Lane::kWorkspaceBytes, lane.stream()),
        kMultiplying);
  return true;
}

}  // namespace

cublasComputeType_t compute_type(Precision precision) {
  return precision == Precision::fp32 ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32;
}

bool is_aligned(const Product& p) {
  constexpr std::uintptr_t kBytes = 16;
  const auto begins = [](const float* data) { return reinterpret_cast<std::uintptr_t>(data) % kBytes == 0; };
  return begins(p.a.data) && begins(p.b.data) && begins(p.c.data);
}

void multiply(const Lane& lane, const Product& p, Precision precision) {
  if (precision != Precision::fp32 && multiply_large(lane, p)) return;
  check(cublasGemmEx(lane.blas(), p.turn_b, p.turn_a, checked_int(p.c.cols, "columns"), checked_int(p.c.rows, "rows"),
                     checked_int(p.inner, "the inner size"), &p.alpha, p.b.data, CUDA_R_32F,
                     checked_int(p.b.stride, "stride"), p.a.data, CUDA_R_32F, checked_int(p.a.stride, "stride"),
                     &p.beta, p.c.data, CUDA_R_32F, checked_int(p.c.stride, "stride"), compute_type(precision),
                     CUBLAS_GEMM_DEFAULT),
        kMultiplying);
}

void affine(const Lane& lane, ConstPanel x, ConstPanel w, ConstPanel b, Precision precision, Panel y) {
  if (x.rows == 0 || w.rows == 0) return;
  if (try_affine(lane, x, w, b, precision, y)) return;
  // Odd sizes that tf32 cannot have are multiplied in float32.
  if (!try_affine(lane, x, w, b, Precision::fp32, y)) check(CUBLAS_STATUS_NOT_SUPPORTED, kChoosing);
}

}  // namespace kedge::cuda
