// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/tuned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace kedge::cuda {
namespace {

cublasLtHandle_t light(const Lane& lane) {
  return reinterpret_cast<cublasLtHandle_t>(lane.blas());
}

std::int64_t alignment(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256U;
  return static_cast<std::int64_t>(address & (~address + 1));
}

void describe(cublasLtMatrixLayoutOpaque_t& layout, cudaDataType_t type, cublasOperation_t turn, int rows, int cols,
              int stride) {
  if (turn == CUBLAS_OP_T) std::swap(rows, cols);
  check(cublasLtMatrixLayoutInit(&layout, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols),
                                 stride),
        "to describe a matrix");
}

std::string words(const cublasLtMatmulAlgo_t& algorithm) {
  const auto value = [&](cublasLtMatmulAlgoConfigAttributes_t what) {
    std::uint32_t found = 0;
    std::size_t written = 0;
    (void)cublasLtMatmulAlgoConfigGetAttribute(&algorithm, what, &found, sizeof(found), &written);
    return written < sizeof(found) ? found & 0xffffU : found;
  };
  return fmt::format("id {} tile {} stages {} split {} scheme {} swizzle {} cluster {}", value(CUBLASLT_ALGO_CONFIG_ID),
                     value(CUBLASLT_ALGO_CONFIG_TILE_ID), value(CUBLASLT_ALGO_CONFIG_STAGES_ID),
                     value(CUBLASLT_ALGO_CONFIG_SPLITK_NUM), value(CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
                     value(CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING), value(CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID));
}

}  // namespace

bool TunedProducts::wanted() {
  static const bool is = std::getenv("KEDGE_TRY_TUNE") != nullptr;
  return is;
}

TunedProducts::Plan TunedProducts::make(const Lane& lane, const ColumnProduct& p) {
  Plan plan;
  check(cublasLtMatmulDescInit(&plan.product, p.compute, CUDA_R_32F), "to describe a product");
  const auto set = [&](cublasLtMatmulDescAttributes_t what, cublasOperation_t value) {
    check(cublasLtMatmulDescSetAttribute(&plan.product, what, &value, sizeof value), "to describe a product");
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.turn_left);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.turn_right);
  describe(plan.left, p.type, p.turn_left, p.rows, p.inner, p.left_stride);
  describe(plan.right, p.type, p.turn_right, p.inner, p.cols, p.right_stride);
  describe(plan.c, CUDA_R_32F, CUBLAS_OP_N, p.rows, p.cols, p.c_stride);
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "to describe a product's memory");
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t what, auto value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference, what, &value, sizeof value),
          "to describe a product's memory");
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(Lane::kWorkspaceBytes));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(alignment(p.left)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(alignment(p.right)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(alignment(p.c)));
  prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(alignment(p.c)));
  std::vector<cublasLtMatmulHeuristicResult_t> proposed(32);
  int count = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(light(lane), &plan.product, &plan.left, &plan.right, &plan.c, &plan.c, preference,
                                     static_cast<int>(proposed.size()), proposed.data(), &count);
  (void)cublasLtMatmulPreferenceDestroy(preference);
  if (status != CUBLAS_STATUS_SUCCESS || count == 0) return plan;
  cudaEvent_t start = nullptr, end = nullptr;
  check(cudaEventCreate(&start), "to make an event");
  check(cudaEventCreate(&end), "to make an event");
  check(cudaDeviceSynchronize(), "while it worked");
  float best = 1e30F, first = 0;
  int chosen = 0;
  for (int i = 0; i < count; ++i) {
    const auto& each = proposed[static_cast<std::size_t>(i)];
    float least = 1e30F;
    for (int round = 0; round < 4; ++round) {
      constexpr int kCalls = 10;
      check(cudaEventRecord(start, lane.stream()), "to record an event");
      for (int call = 0; call < kCalls; ++call) {
        const float alpha = p.beta == 0 ? p.alpha : 1e-30F;  // c is written again below, or stays as it is
        (void)cublasLtMatmul(light(lane), &plan.product, &alpha, p.left, &plan.left, p.right, &plan.right, &p.beta, p.c,
                             &plan.c, p.c, &plan.c, &each.algo, lane.workspace(), Lane::kWorkspaceBytes, lane.stream());
      }
      check(cudaEventRecord(end, lane.stream()), "to record an event");
      lane.wait();
      float ms = 0;
      check(cudaEventElapsedTime(&ms, start, end), "to tell the time");
      if (round > 0) least = std::min(least, ms / kCalls);
    }
    if (i == 0) first = least;
    if (least < best) {
      best = least;
      chosen = i;
    }
  }
  (void)cudaEventDestroy(start);
  (void)cudaEventDestroy(end);
  plan.algorithm = proposed[static_cast<std::size_t>(chosen)].algo;
  plan.usable = true;
  fmt::print(stderr, "tuned {}{} {} x {} x {}{} beta {}: first {:.1f} us, best {:.1f} us #{} of {}: {}\n",
             p.turn_left == CUBLAS_OP_T ? 't' : 'n', p.turn_right == CUBLAS_OP_T ? 't' : 'n', p.rows, p.cols, p.inner,
             p.type == CUDA_R_16BF ? " bf16" : "", p.beta, 1e3F * first, 1e3F * best, chosen, count,
             words(plan.algorithm));
  return plan;
}

bool TunedProducts::multiply(const Lane& lane, const ColumnProduct& p) {
  const Key key{p.turn_left,       p.turn_right,       p.rows,        p.cols, p.inner,
                p.left_stride,     p.right_stride,     p.c_stride,    p.type, p.beta == 0,
                alignment(p.left), alignment(p.right), alignment(p.c)};
  auto known = plans_.find(key);
  if (known == plans_.end()) known = plans_.emplace(key, make(lane, p)).first;
  Plan& plan = known->second;
  if (!plan.usable) return false;
  check(cublasLtMatmul(light(lane), &plan.product, &p.alpha, p.left, &plan.left, p.right, &plan.right, &p.beta, p.c,
                       &plan.c, p.c, &plan.c, &plan.algorithm, lane.workspace(), Lane::kWorkspaceBytes, lane.stream()),
        "to multiply matrices");
  return true;
}

}  // namespace kedge::cuda
