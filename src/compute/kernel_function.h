// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <span>

namespace kedge {

/// A smooth function of a vector x, in three parts:
///
///     bias + weight f(x) + coefficients^T q(width rows f(x))        f(x) = (x - mean) projection, of length 1
///
/// q(u) = e^u - 1 - u is a kernel without its constant and its line. Those are in `bias` and `weight`, where they need
/// no sum over all rows whose large terms cancel: float32 then keeps two more digits of a wide kernel.
struct KernelFunction {
  float width = 1;
  MatrixView<const float> projection;    ///< dim x dim; without rows it is the identity
  MatrixView<const float> rows;          ///< any number x dim, of length 1
  MatrixView<const float> coefficients;  ///< as many x outputs
  MatrixView<const float> weight;        ///< outputs x dim
  std::span<const float> bias, mean;     ///< outputs, dim

  [[nodiscard]] std::size_t input_dim() const { return mean.size(); }
  [[nodiscard]] std::size_t output_dim() const { return bias.size(); }
};

/// y, rows x outputs, for the rows of x. f of the mean is 0.
void apply_kernel(const KernelFunction& function, MatrixView<const float> x, MatrixView<float> y);
/// One vector, with no memory allocated up to 4096 values and no thread but the calling one.
void apply_kernel(const KernelFunction& function, std::span<const float> x, std::span<float> y);

}  // namespace kedge
