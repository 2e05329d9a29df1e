// SPDX-License-Identifier: Apache-2.0
#include "compute/row_sums.h"

#include "compute/cuda/cuda.h"

namespace kedge {

template <class T>
std::unique_ptr<RowSums<T>> make_row_sums(std::span<const std::size_t> widths, std::size_t most_rows,
                                          std::size_t buffers, Device) {
  return cuda::make_row_sums<T>(widths, most_rows, buffers);
}
template std::unique_ptr<RowSums<float>> make_row_sums(std::span<const std::size_t>, std::size_t, std::size_t, Device);
template std::unique_ptr<RowSums<double>> make_row_sums(std::span<const std::size_t>, std::size_t, std::size_t, Device);

}  // namespace kedge
