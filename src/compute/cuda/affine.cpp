// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/affine.h"

#include "compute/cuda/check.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/device_rows.h"
#include "compute/cuda/upload.h"

#include <algorithm>
#include <memory>
#include <type_traits>

namespace kedge::cuda {
namespace {

struct DestroyPreference {
  void operator()(cublasLtMatmulPreference_t preference) const noexcept {
    (void)cublasLtMatmulPreferenceDestroy(preference);
  }
};
using Preference = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>, DestroyPreference>;

/// The largest power of two, at most 256, that the address is a multiple of. Odd dims begin their panels anywhere.
std::uint32_t alignment(const float* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data) | 256U;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

template <class T>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute, T value) {
  check(cublasLtMatmulDescSetAttribute(product, attribute, static_cast<const void*>(&value), sizeof value),
        "to describe a product");
}

template <class T>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "to describe a product's memory");
}

/// Rows one after the other are, to cuBLAS, columns one after the other: it sees the transpose.
void describe(cublasLtMatrixLayoutOpaque_t& layout, ConstPanel panel) {
  // A panel of one row may have any stride, but cuBLAS wants one that holds a row.
  const std::size_t stride = std::max(panel.stride, panel.cols);
  check(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, panel.cols, panel.rows, static_cast<std::int64_t>(stride)),
        "to describe a matrix");
}

/// Whether cuBLASLt knows a way; if so, the fastest by its own judgement is in the plan.
bool choose(const Lane& lane, ConstPanel x, ConstPanel w, ConstPanel b, ConstPanel y, Precision precision,
            AffinePlan& plan) {
  // y = x w^T + b by rows is y^T = w x^T + b by columns, so the bias runs down the columns as the epilogue wants it.
  check(cublasLtMatmulDescInit(&plan.product, compute_type(precision), CUDA_R_32F), "to describe a product");
  set(&plan.product, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
  set(&plan.product, CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
  set(&plan.product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(&plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(b.data));
  describe(plan.w, w);
  describe(plan.x, x);
  describe(plan.y, y);

  cublasLtMatmulPreference_t made = nullptr;
  check(cublasLtMatmulPreferenceCreate(&made), "to describe a product's memory");
  const Preference preference(made);
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(Lane::kWorkspaceBytes));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment(w.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment(x.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment(y.data));
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment(y.data));

  cublasLtMatmulHeuristicResult_t found{};
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(lane.light(), &plan.product, &plan.w, &plan.x, &plan.y,
                                                               &plan.y, preference.get(), 1, &found, &count);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (status == CUBLAS_STATUS_SUCCESS && count == 0)) return false;
  check(status, "to choose an algorithm for a product");
  check(found.state, "to choose an algorithm for a product");
  plan.algorithm = found.algo;
  return true;
}

/// What all workers share, and only read.
struct Weights {
  DeviceArray<float> weight, bias;
  std::size_t input_dim, output_dim;
  Precision precision;
};

}  // namespace

AffinePlan& AffinePlans::plan(const Lane& lane, ConstPanel x, ConstPanel w, ConstPanel b, Precision precision,
                              ConstPanel y) {
  const Key key{x.rows,
                x.cols,
                w.rows,
                x.stride,
                w.stride,
                y.stride,
                alignment(x.data),
                alignment(w.data),
                alignment(b.data),
                alignment(y.data),
                static_cast<std::uint64_t>(precision)};
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  AffinePlan plan;
  // The odd sizes that the fast kinds of numbers cannot have are served in float32.
  if (!choose(lane, x, w, b, y, precision, plan) && !choose(lane, x, w, b, y, Precision::fp32, plan)) {
    check(CUBLAS_STATUS_NOT_SUPPORTED, "to choose an algorithm for a product");
  }
  return plans_.emplace(key, plan).first->second;
}

void affine(const Lane& lane, AffinePlans& plans, ConstPanel x, ConstPanel w, ConstPanel b, Precision precision,
            Panel y) {
  if (x.rows == 0 || w.rows == 0) return;
  AffinePlan& plan = plans.plan(lane, x, w, b, precision, y);
  set(&plan.product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(b.data));
  const float one = 1, zero = 0;
  check(cublasLtMatmul(lane.light(), &plan.product, &one, w.data, &plan.w, x.data, &plan.x, &zero, y.data, &plan.y,
                       y.data, &plan.y, &plan.algorithm, lane.workspace(), Lane::kWorkspaceBytes, lane.stream()),
        "to multiply matrices");
}

MakeRowWorker affine_workers(MatrixView<const float> weight, std::span<const float> bias, Precision precision) {
  require();
  const auto shared =
      std::make_shared<const Weights>(Weights{upload(weight), upload(bias), weight.cols, weight.rows, precision});
  // The workers' streams do not wait for the copies, which may still be under way.
  check(cudaDeviceSynchronize(), "to copy a map");
  return [shared](std::size_t most_rows) {
    require();  // in the worker's own thread
    const std::size_t values = checked_mul(most_rows, shared->input_dim + shared->output_dim);
    require_free(checked_mul(values, sizeof(float)), "a thread that maps rows", "use fewer threads");
    const auto plans = std::make_shared<AffinePlans>();
    return std::make_unique<DeviceRows>(shared->input_dim, shared->output_dim, most_rows,
                                        [shared, plans](const Lane& lane, Panel x, Panel y) {
                                          const std::size_t in = shared->input_dim, out = shared->output_dim;
                                          affine(lane, *plans, x, {shared->weight.data(), out, in, in},
                                                 {shared->bias.data(), 1, out, out}, shared->precision, y);
                                        });
  };
}

}  // namespace kedge::cuda
