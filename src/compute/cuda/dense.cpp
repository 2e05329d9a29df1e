// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/dense.h"

#include "base/checked.h"
#include "compute/cuda/check.h"

namespace kedge::cuda {
namespace {

constexpr const char* kCopying = "to copy a matrix";

int size_of(std::size_t value) {
  return checked_int(value, "a matrix's dimension");
}

cublasOperation_t order_of(Dense::Side side) {
  return side == Dense::Side::turned ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

DeviceArray<double> Dense::upload(MatrixView<const double> rows) const {
  DeviceArray<double> array(checked_mul(rows.rows, rows.cols));
  if (array.size() == 0) return array;
  const std::size_t row = rows.cols * sizeof(double);
  const bool whole = rows.stride == rows.cols;  // one row to it, as the number of those has a limit
  const cudaError_t status =
      whole ? cudaMemcpyAsync(array.data(), rows.data, rows.rows * row, cudaMemcpyHostToDevice, stream())
            : cudaMemcpy2DAsync(array.data(), row, rows.data, rows.stride * sizeof(double), row, rows.rows,
                                cudaMemcpyHostToDevice, stream());
  check(status, kCopying);
  return array;
}

void Dense::download(const Block& from, MatrixView<double> to) const {
  const std::size_t column = from.rows * sizeof(double);
  const bool whole = from.stride == from.rows && to.stride == from.rows;
  check(whole ? cudaMemcpyAsync(to.data, from.data, from.cols * column, cudaMemcpyDeviceToHost, stream())
              : cudaMemcpy2DAsync(to.data, to.stride * sizeof(double), from.data, from.stride * sizeof(double), column,
                                  from.cols, cudaMemcpyDeviceToHost, stream()),
        kCopying);
  wait();
}

void Dense::copy(const Block& from, const Block& to) const {
  check(cudaMemcpy2DAsync(to.data, to.stride * sizeof(double), from.data, from.stride * sizeof(double),
                          from.rows * sizeof(double), from.cols, cudaMemcpyDeviceToDevice, stream()),
        kCopying);
}

void Dense::multiply(double scale, const Block& a, Side a_side, const Block& b, Side b_side, const Block& c) const {
  const double keep = 0;
  const std::size_t shared = a_side == Side::turned ? a.rows : a.cols;
  check(cublasDgemm(blas(), order_of(a_side), order_of(b_side), size_of(c.rows), size_of(c.cols), size_of(shared),
                    &scale, a.data, size_of(a.stride), b.data, size_of(b.stride), &keep, c.data, size_of(c.stride)),
        "to multiply matrices");
}

/// By the factor R whose inverse B is.
void Dense::divide(const ChangeOfBasis& basis, cublasSideMode_t side, cublasOperation_t order, const Block& x) const {
  const Matrix64& factor = basis.factor().value().factor();
  const DeviceArray<double> own = upload(factor.view());
  const double one = 1;
  check(cublasDtrsm(blas(), side, CUBLAS_FILL_MODE_LOWER, order, CUBLAS_DIAG_NON_UNIT, size_of(x.rows), size_of(x.cols),
                    &one, own.data(), size_of(factor.rows()), x.data, size_of(x.stride)),
        "to divide by a triangular matrix");
  wait();  // the factor goes
}

/// By B, which is our rows and so turned here already.
void Dense::multiply_in_place(const ChangeOfBasis& basis, bool from_left, Side side, const Block& x) const {
  const Matrix64& matrix = basis.matrix();
  const DeviceArray<double> own = upload(matrix.view());
  const DeviceArray<double> given(checked_mul(x.rows, x.cols));
  const Block before = packed(given, x.rows, x.cols);
  copy(x, before);
  const Block b = packed(own, matrix.rows(), matrix.rows());
  if (from_left) {
    multiply(1, b, side, before, Side::plain, x);
  } else {
    multiply(1, before, Side::plain, b, side, x);
  }
  wait();  // what was uploaded goes
}

void Dense::apply_to_columns(const ChangeOfBasis& basis, const Block& x) const {
  if (basis.factor()) return divide(basis, CUBLAS_SIDE_LEFT, CUBLAS_OP_N, x);
  multiply_in_place(basis, true, Side::turned, x);
}

void Dense::apply_to_rows(const ChangeOfBasis& basis, const Block& x) const {
  if (basis.factor()) return divide(basis, CUBLAS_SIDE_RIGHT, CUBLAS_OP_T, x);
  multiply_in_place(basis, false, Side::plain, x);
}

void Dense::adjoint_to_columns(const ChangeOfBasis& basis, const Block& x) const {
  if (basis.factor()) return divide(basis, CUBLAS_SIDE_LEFT, CUBLAS_OP_T, x);
  multiply_in_place(basis, true, Side::plain, x);
}

}  // namespace kedge::cuda
