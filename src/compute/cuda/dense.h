// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/covariance.h"
#include "compute/cuda/lane.h"
#include "compute/cuda/memory.h"
#include "compute/cuda/solver.h"

#include <kedge/matrix.h>

#include <cstddef>
#include <span>
#include <vector>

namespace kedge::cuda {

/// A matrix in the GPU's memory, or part of one, by columns as cuBLAS has it: our rows are its columns.
struct Block {
  double* data;
  std::size_t rows, cols;
  std::size_t stride;  ///< from one column to the next
};

[[nodiscard]] inline Block packed(const DeviceArray<double>& array, std::size_t rows, std::size_t cols) {
  return {array.data(), rows, cols, rows};
}

/// float64 algebra of matrices in the GPU's memory, one operation after the other on a stream of its own.
class Dense {
 public:
  Dense() : solver_(lane_.stream()) {}
  // No memory may go while the GPU still works with it.
  ~Dense() { (void)cudaStreamSynchronize(lane_.stream()); }
  Dense(const Dense&) = delete;
  Dense& operator=(const Dense&) = delete;

  /// Our rows, packed: cols x rows to cuBLAS.
  [[nodiscard]] DeviceArray<double> upload(MatrixView<const double> rows) const;
  void download(const Block& from, MatrixView<double> to) const;
  void copy(const Block& from, const Block& to) const;

  enum class Side { plain, turned };
  /// c = scale a b
  void multiply(double scale, const Block& a, Side a_side, const Block& b, Side b_side, const Block& c) const;
  /// x = B x and x = x B^T.
  void apply_to_columns(const ChangeOfBasis& basis, const Block& x) const;
  void apply_to_rows(const ChangeOfBasis& basis, const Block& x) const;
  /// x = B^T x
  void adjoint_to_columns(const ChangeOfBasis& basis, const Block& x) const;
  /// In place, of a packed matrix: the eigenvectors of the `count` largest eigenvalues are the first columns then,
  /// ascending. Only the lower triangle is read. Returns the eigenvalues.
  [[nodiscard]] std::vector<double> decompose(const Block& symmetric, std::size_t count) const;

  [[nodiscard]] cudaStream_t stream() const { return lane_.stream(); }
  [[nodiscard]] cublasHandle_t blas() const { return lane_.blas(); }
  void wait() const { lane_.wait(); }

 private:
  void divide(const ChangeOfBasis& basis, cublasSideMode_t side, cublasOperation_t order, const Block& x) const;
  void multiply_in_place(const ChangeOfBasis& basis, bool from_left, Side side, const Block& x) const;

  Lane lane_;
  Solver solver_;
};

/// The upper triangle by columns, `scale` times, becomes all of a symmetric matrix.
void mirror(const Block& square, double scale, cudaStream_t stream);
/// Packed rows less a mean, as float64 columns of `to`, which may be `from`.
void centre(const float* from, const double* mean, const Block& to, cudaStream_t stream);
void centre(const double* from, const double* mean, const Block& to, cudaStream_t stream);

}  // namespace kedge::cuda
