// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/cuda/runtime.h"
#include "compute/kernel.h"

#include <cuda_bf16.h>

namespace kedge::cuda {

// What is queued on a stream: the operations of Backend (see there for what they compute), products and kernel maps.

// Operations that are often done for several matrices: a list of them costs one launch or two.
struct Fill {
  Panel x;
  float value;
};
struct Gather {
  ConstPanel from;
  Ids ids;
  Panel to;
};
struct Normalize {
  ConstPanel x;
  Panel unit, lengths, again;
};
struct NormalizeBackward {
  ConstPanel unit, lengths, dunit;
  float beta;
  Panel dx;
};
struct Coverage {
  ConstPanel r, x_lengths, a_lengths;
  float tau;
  Weighted weighted;
  Panel dr, pull, loss;
};
struct PullRows {
  ConstPanel a, lengths, pull;
  Weighted weighted;
  Panel da, loss;
};
struct Orthogonality {
  ConstPanel gram;
  float share;
  Panel loss;
};
struct SymmetricNce {
  Panel cosines, turned;
  float tau;
  Weighted weighted;
  Panel loss;
};

constexpr std::size_t kMostAtOnce = 8;

/// How many doubles an operation needs for its intermediate sums.
constexpr std::size_t scratch_of(const Coverage& c) {
  return c.r.rows;
}
constexpr std::size_t scratch_of(const Orthogonality& o) {
  return o.gram.rows;
}
constexpr std::size_t kNceTile = 64;  // rows and columns of the cosines that a block works on
constexpr std::size_t scratch_of(const SymmetricNce& n) {
  const std::size_t tiles = (n.cosines.rows + kNceTile - 1) / kNceTile;
  return tiles * n.cosines.rows + tiles + 1;
}

// A list has at most kMostAtOnce operations. `scratch` has room for all of them, and is theirs until they have run.
void run(cudaStream_t stream, std::span<const Fill> all);
void run(cudaStream_t stream, std::span<const Gather> all);
void run(cudaStream_t stream, std::span<const Normalize> all);
void run(cudaStream_t stream, std::span<const NormalizeBackward> all);
void run(cudaStream_t stream, std::span<const PullRows> all);
void run(cudaStream_t stream, std::span<const Coverage> all, double* scratch);
void run(cudaStream_t stream, std::span<const Orthogonality> all, double* scratch);
void run(cudaStream_t stream, std::span<const SymmetricNce> all, double* scratch);

/// The stride of a bfloat16 matrix whose rows start on 16 bytes.
constexpr std::size_t narrow_stride(std::size_t cols) {
  return (cols + 7) / 8 * 8;
}
/// Rows of `stride` values one after the other, rounded to the nearest bfloat16.
void narrow(cudaStream_t stream, ConstPanel x, __nv_bfloat16* to, std::size_t stride);
/// to = the transpose of from.
void turn(cudaStream_t stream, ConstPanel from, Panel to);
void row_lengths(cudaStream_t stream, ConstPanel x, Panel lengths);
void row_dots(cudaStream_t stream, ConstPanel x, ConstPanel y, Panel dots);
/// How many doubles a softmax needs for its intermediate sums.
[[nodiscard]] std::size_t softmax_scratch(ConstPanel logits);
void softmax_rows(cudaStream_t stream, ConstPanel logits, float temperature, Panel softmax, double* scratch);
void step_logits(cudaStream_t stream, ConstPanel dsoftmax, ConstPanel inner, float temperature, const AdamStep& adam,
                 Panel logits, Panel first_moment, Panel second_moment, Panel softmax, double* scratch);
void step_values(cudaStream_t stream, ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                 Panel second_moment);
void end_step(cudaStream_t stream, Panel losses, Panel log, std::uint32_t* taken);

/// c = alpha a b + beta c, with a or b transposed. cuBLAS, which counts by columns, is told c^T = b^T a^T.
struct Product {
  cublasOperation_t turn_a, turn_b;
  std::size_t inner;
  float alpha;
  ConstPanel a, b;
  float beta;
  Panel c;
};

/// Of float32 matrices. bf16 is tf32 here: converting a matrix for one product would not pay.
[[nodiscard]] cublasComputeType_t compute_type(Precision precision);

/// Whether its matrices begin on 16 bytes. The fast kernels of cuBLAS need that, and it takes it for granted if it does
/// not see their addresses.
[[nodiscard]] bool is_aligned(const Product& product);

// Queued on the lane; fp32 is real float32.
void multiply(const Lane& lane, const Product& product, Precision precision);
/// y = x w^T + b, with b a row, in one launch. Adding b by a kernel of its own takes 1.6 times as long in tf32.
void affine(const Lane& lane, ConstPanel x, ConstPanel w, ConstPanel b, Precision precision, Panel y);

/// A kernel function in the GPU's memory. What applies it only reads it.
struct DeviceKernel {
  /// Waits until all of it is there.
  DeviceKernel(const KernelFunction& function, Precision asked);

  std::size_t input_dim, output_dim, row_count;
  float width;
  bool projected;
  Precision precision;
  DeviceArray<float> projection, rows, coefficients, weight, bias, mean;
};

/// Takes rows in the GPU's memory through a kernel function: a block of them at a time, and each block through a tile
/// of the function's own rows at a time, so that the memory between its two products is bounded.
class KernelApply {
 public:
  KernelApply(const DeviceKernel& function, std::size_t most_rows);

  /// How much memory one takes, in float32 values.
  [[nodiscard]] static std::size_t values(const DeviceKernel& function, std::size_t most_rows);
  /// Queued on the lane. x is changed on the way.
  void apply(const Lane& lane, Panel x, Panel y);

 private:
  void apply_some(const Lane& lane, Panel x, Panel y);

  const DeviceKernel& function_;
  std::size_t tile_, rows_;
  DeviceArray<float> unit_, curves_;
};

}  // namespace kedge::cuda
