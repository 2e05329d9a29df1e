// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/cuda.h"
#include "compute/cuda/runtime.h"

namespace kedge::cuda {

/// Rows in the GPU's memory.
using Rows64 = MatrixView<double>;

/// float64 algebra in the GPU's memory. cuBLAS and cuSOLVER count by columns and see the transpose of every matrix.
class Dense : public Lane {
 public:
  Dense() : solver_(*this) {}

  /// c = scale a b, with a or b transposed by CUBLAS_OP_T.
  void multiply(double scale, Rows64 a, cublasOperation_t turn_a, Rows64 b, cublasOperation_t turn_b, Rows64 c) const;
  void apply_to_rows(const ChangeOfBasis& basis, Rows64 x) const;     ///< x = x B^T
  void apply_to_columns(const ChangeOfBasis& basis, Rows64 x) const;  ///< x = B x
  void adjoint_to_rows(const ChangeOfBasis& basis, Rows64 x) const;   ///< x = x B
  /// Of a packed matrix, of which only the upper triangle is read: its first rows become the eigenvectors of the
  /// `count` largest eigenvalues, ascending. Returns the eigenvalues.
  [[nodiscard]] std::vector<double> decompose(Rows64 symmetric, std::size_t count) const;
  [[nodiscard]] const Solver& solver() const { return solver_; }

 private:
  void divide(const ChangeOfBasis& basis, cublasSideMode_t side, cublasOperation_t turn, Rows64 x) const;

  Solver solver_;
};

/// The lower triangle, `scale` times, becomes all of a symmetric matrix.
void mirror(Rows64 square, double scale, cudaStream_t stream);
/// Packed rows less a mean; `to` may be `from`.
void centre(const float* from, const double* mean, Rows64 to, cudaStream_t stream);
void centre(const double* from, const double* mean, Rows64 to, cudaStream_t stream);

}  // namespace kedge::cuda
