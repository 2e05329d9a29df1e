// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <cuda_runtime_api.h>

#include <cstddef>

// What kernel maps do besides products, each queued on a stream.
namespace kedge::cuda {

/// Every row less `mean`.
void center_rows(cudaStream_t stream, Panel x, const float* mean);
/// Length 1, but for zero; squares are summed in float64.
void unit_rows(cudaStream_t stream, Panel x);
/// u = e^u - 1 - u, as on the processor, for values one after the other.
void exp_without_line(cudaStream_t stream, float* u, std::size_t count);

void widen(cudaStream_t stream, const float* from, double* to, std::size_t count);
/// exp(width (cosine - 1)) for the lower triangle of a matrix by columns, with the ridge on its diagonal.
void kernel_of_cosines(cudaStream_t stream, double* matrix, std::size_t dim, double width, double ridge);
/// Column c gets a 1 at row positions[c] - first; the columns, of `rows` values, are zero.
void put_ones(cudaStream_t stream, double* columns, std::size_t rows, const std::size_t* positions, std::size_t count,
              std::size_t first);
/// The sum of squares of each column.
void squared_columns(cudaStream_t stream, const double* columns, std::size_t rows, std::size_t count, double* squares);

}  // namespace kedge::cuda
