// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <memory>

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

/// The linear system of a kernel between some rows, k(a, b) = exp(width (a.b - 1)), with a ridge on its diagonal. In
/// float64, and in no more memory than the matrix itself takes.
class KernelSystem {
 public:
  virtual ~KernelSystem() = default;

  /// Call it before the others, as often as you like. False if the matrix is singular up to rounding.
  [[nodiscard]] virtual bool factor(double width, double ridge) = 0;
  /// x = (K + ridge I)^-1 x, for the columns of x; x has as many rows as the system.
  virtual void solve(MatrixView<double> x) const = 0;
  /// Values of the diagonal of (K + ridge I)^-1 at these positions, which must ascend.
  [[nodiscard]] virtual std::vector<double> inverse_diagonal(std::span<const std::size_t> positions) const = 0;
};

/// `rows` have length 1, or 0.
[[nodiscard]] std::unique_ptr<KernelSystem> make_kernel_system(MatrixView<const float> rows, Device device);

}  // namespace kedge
