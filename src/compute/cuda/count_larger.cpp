// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/count_larger.h"

#include "base/checked.h"
#include "compute/cuda/check.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/lane.h"
#include "compute/cuda/memory.h"

#include <algorithm>
#include <vector>

namespace kedge::cuda {
namespace {

constexpr std::size_t kQueries = 2048;  // rows of a block of products, 64 MB
constexpr std::size_t kKeys = 8192;     // columns

/// A matrix of the host, packed in the GPU's memory.
struct Rows {
  DeviceArray<float> values;
  ConstPanel panel;

  Rows(MatrixView<const float> from, const Lane& lane)
      : values(checked_mul(from.rows, from.cols)), panel{values.data(), from.rows, from.cols, from.cols} {
    const std::size_t row_bytes = from.cols * sizeof(float);
    check(cudaMemcpy2DAsync(values.data(), row_bytes, from.data, from.stride * sizeof(float), row_bytes, from.rows,
                            cudaMemcpyHostToDevice, lane.stream()),
          "to copy rows");
  }
};

/// products = queries keys^T, in real float32: what is near is judged by its rounding.
void multiply(const Lane& lane, ConstPanel queries, ConstPanel keys, Panel products) {
  const float one = 1, zero = 0;
  const int dim = checked_int(queries.cols, "the dimension of the rows");
  const int stride = static_cast<int>(products.stride);
  check(cublasGemmEx(lane.blas(), CUBLAS_OP_T, CUBLAS_OP_N, static_cast<int>(keys.rows), static_cast<int>(queries.rows),
                     dim, &one, keys.data, CUDA_R_32F, dim, queries.data, CUDA_R_32F, dim, &zero, products.data,
                     CUDA_R_32F, stride, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "to multiply matrices");
}

}  // namespace

void count_larger(MatrixView<const float> queries, MatrixView<const float> keys, float near,
                  std::span<std::size_t> ranks, const std::function<void(std::size_t)>& tell) {
  require();
  const std::size_t values = checked_mul(queries.rows + keys.rows, queries.cols) + kQueries * kKeys;
  require_free(checked_mul(values, sizeof(float)), "ranking", "compare fewer rows at a time");
  const Lane lane;
  const Rows all_queries(queries, lane);
  const Rows all_keys(keys, lane);
  const std::size_t width = std::min(kKeys, keys.rows);
  const DeviceArray<float> products(checked_mul(std::min(kQueries, queries.rows), width));
  const DeviceArray<unsigned long long> counts(queries.rows);
  check(cudaMemsetAsync(counts.data(), 0, counts.size() * sizeof(unsigned long long), lane.stream()),
        "to clear memory");
  for (std::size_t query = 0; query < queries.rows; query += kQueries) {
    const std::size_t rows = std::min(kQueries, queries.rows - query);
    for (std::size_t key = 0; key < keys.rows; key += kKeys) {
      const Panel block{products.data(), rows, std::min(kKeys, keys.rows - key), width};
      multiply(lane, all_queries.panel.middle_rows(query, rows), all_keys.panel.middle_rows(key, block.cols), block);
      count_larger(lane.stream(), {all_queries.panel, all_keys.panel, block, query, key, near}, counts.data());
    }
    lane.wait();
    tell(query + rows);
  }
  std::vector<unsigned long long> found(queries.rows);
  check(cudaMemcpy(found.data(), counts.data(), found.size() * sizeof(unsigned long long), cudaMemcpyDeviceToHost),
        "to copy ranks");
  for (std::size_t i = 0; i < found.size(); ++i) ranks[i] += found[i];
}

}  // namespace kedge::cuda
