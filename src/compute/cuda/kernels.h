// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <span>

// The operations of Backend that are not products, each queued on a stream; see there for what they compute.
namespace kedge::cuda {

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

}  // namespace kedge::cuda
