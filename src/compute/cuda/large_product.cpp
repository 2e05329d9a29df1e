// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/capability.h"
#include "compute/cuda/product.h"

#include <cublasLt.h>

#include <cstdint>
#include <optional>

namespace kedge::cuda {
namespace {

constexpr int kHopperTf32 = 43;  // cuBLASLt's number of its kernels for tf32 on Hopper

struct Setting {
  cublasLtMatmulTile_t tile;
  cublasLtClusterShape_t cluster;
  bool shared_inner;  ///< blocks share the inner size, as tiles are too few to keep all busy
};

/// What was faster than cuBLASLt's own choice on an H200, for 300 rows, 2,432 columns and an inner size of 5,000 or
/// 50,000; for shapes that are cut into tiles alike as well. cuBLAS sees the columns of c as rows: a tile is as many of
/// them high.
std::optional<Setting> setting_for(const Product& p) {
  constexpr std::size_t kLeast = 257, kMost = 384;  // rows of c: three tiles of 128, five or six of 64
  constexpr std::size_t kLong = 16'384;
  constexpr std::size_t kOneWave = 4'096, kMoreThanOne = 5'633;  // columns in tiles of 256 x 64, on 132 multiprocessors
  const std::size_t columns = p.c.cols;
  if (p.turn_a != CUBLAS_OP_N || p.turn_b != CUBLAS_OP_T || p.c.rows < kLeast || p.c.rows > kMost) return {};
  if (p.inner >= kLong) {
    if (columns >= kLong) return {};
    return Setting{CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_CLUSTER_SHAPE_4x1x1, true};
  }
  if (columns >= kLong) return Setting{CUBLASLT_MATMUL_TILE_256x128, CUBLASLT_CLUSTER_SHAPE_1x2x1, false};
  if (columns < kOneWave || columns >= kMoreThanOne) return {};
  return Setting{CUBLASLT_MATMUL_TILE_256x64, CUBLASLT_CLUSTER_SHAPE_2x2x1, false};
}

template <class T>
void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t what, T value) {
  check(cublasLtMatmulDescSetAttribute(&product, what, &value, sizeof value), "to describe a product");
}

/// Rows one after the other are, to cuBLAS, columns one after the other: it sees the transpose.
cublasLtMatrixLayoutOpaque_t describe(ConstPanel panel) {
  cublasLtMatrixLayoutOpaque_t layout{};
  check(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, panel.cols, panel.rows, static_cast<std::int64_t>(panel.stride)),
        "to describe a matrix");
  return layout;
}

/// False if this cuBLASLt has no such kernel.
bool make(const Lane& lane, const Setting& setting, cublasLtMatmulAlgo_t& algorithm) {
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

}  // namespace

bool multiply_large(const Lane& lane, const Product& p) {
  const auto setting = setting_for(p);
  if (!setting || compute_capability() != kHopper || !is_aligned(p)) return false;
  cublasLtMatmulAlgo_t algorithm{};
  if (!make(lane, *setting, algorithm)) return false;
  cublasLtMatmulDescOpaque_t product{};
  check(cublasLtMatmulDescInit(&product, CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F), "to describe a product");
  set(product, CUBLASLT_MATMUL_DESC_TRANSA, p.turn_b);
  set(product, CUBLASLT_MATMUL_DESC_TRANSB, p.turn_a);
  auto b = describe(p.b), a = describe(p.a), c = describe(p.c);
  cublasLtMatmulHeuristicResult_t checked{};
  if (cublasLtMatmulAlgoCheck(lane.light(), &product, &b, &a, &c, &c, &algorithm, &checked) != CUBLAS_STATUS_SUCCESS ||
      checked.workspaceSize > Lane::kWorkspaceBytes) {
    return false;
  }
  check(cublasLtMatmul(lane.light(), &product, &p.alpha, p.b.data, &b, p.a.data, &a, &p.beta, p.c.data, &c, p.c.data,
                       &c, &algorithm, lane.workspace(), Lane::kWorkspaceBytes, lane.stream()),
        "to multiply matrices");
  return true;
}

}  // namespace kedge::cuda
