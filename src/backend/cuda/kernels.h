// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "backend/backend.h"

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

// The operations of Backend that are not products, each queued on a stream; see there for what they compute. `scratch`
// is the operation's own until the stream has run it.
namespace kedge::cuda {

void fill(cudaStream_t stream, Panel x, float value);
/// Rows of `stride` values one after the other, rounded to the nearest bfloat16.
void narrow(cudaStream_t stream, ConstPanel x, __nv_bfloat16* to, std::size_t stride);
void gather_rows(cudaStream_t stream, ConstPanel from, Ids ids, Panel to);
void row_lengths(cudaStream_t stream, ConstPanel x, Panel lengths);
void normalize_rows(cudaStream_t stream, ConstPanel x, Panel unit, Panel lengths);
void normalize_rows_backward(cudaStream_t stream, ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta,
                             Panel dx);

/// Scratch: a double for every row of r.
void coverage(cudaStream_t stream, ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau,
              Weighted weighted, Panel dr, Panel pull, double* scratch, Panel loss);
void pull_anchors(cudaStream_t stream, ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted weighted, Panel da,
                  Panel loss);
/// Scratch: a double for every anchor.
void orthogonality(cudaStream_t stream, ConstPanel gram, float share, double* scratch, Panel loss);
/// Scratch: three doubles for every row.
void symmetric_nce(cudaStream_t stream, Panel cosines, float tau, Weighted weighted, double* scratch, Panel loss);

void softmax_rows(cudaStream_t stream, ConstPanel logits, float temperature, Panel mixture);
void step_logits(cudaStream_t stream, ConstPanel dmixture, float temperature, const AdamStep& adam, Panel logits,
                 Panel first_moment, Panel second_moment, Panel mixture);
void step_values(cudaStream_t stream, ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                 Panel second_moment);
void end_step(cudaStream_t stream, Panel losses, Panel log, std::uint32_t* taken);

}  // namespace kedge::cuda
