// SPDX-License-Identifier: Apache-2.0
#include "compute/products.h"

#include "base/arithmetic.h"
#include "base/wording.h"
#include "compute/threads.h"

#include <cblas.h>

#include <algorithm>

namespace kedge {
namespace {

int size_of(std::size_t value) {
  return checked_int(value, "a matrix's dimension");
}

/// BLAS would read and write whatever lies behind the matrix.
void require_shapes(bool fit) {
  if (!fit) fail("a product of matrices was asked for whose shapes do not fit together");
}

int stride_of(std::size_t stride) {
  return size_of(std::max<std::size_t>(stride, 1));
}

CBLAS_TRANSPOSE order_of(bool transposed) {
  return transposed ? CblasTrans : CblasNoTrans;
}

void gemm(CBLAS_TRANSPOSE a_order, CBLAS_TRANSPOSE b_order, int m, int n, int k, float scale, const float* a, int lda,
          const float* b, int ldb, float keep, float* c, int ldc) {
  const BlasCall call;
  cblas_sgemm(CblasRowMajor, a_order, b_order, m, n, k, scale, a, lda, b, ldb, keep, c, ldc);
}
void gemm(CBLAS_TRANSPOSE a_order, CBLAS_TRANSPOSE b_order, int m, int n, int k, double scale, const double* a, int lda,
          const double* b, int ldb, double keep, double* c, int ldc) {
  const BlasCall call;
  cblas_dgemm(CblasRowMajor, a_order, b_order, m, n, k, scale, a, lda, b, ldb, keep, c, ldc);
}

template <class T>
void multiply(const Target<T>& to, const Factor<T>& a, const Factor<T>& b, T scale, T keep) {
  const std::size_t shared = a.transposed ? a.rows : a.cols;
  require_shapes(to.rows == (a.transposed ? a.cols : a.rows) && to.cols == (b.transposed ? b.rows : b.cols) &&
                 shared == (b.transposed ? b.cols : b.rows));
  gemm(order_of(a.transposed), order_of(b.transposed), size_of(to.rows), size_of(to.cols), size_of(shared), scale,
       a.data, stride_of(a.stride), b.data, stride_of(b.stride), keep, to.data, stride_of(to.stride));
}

template <class T>
EigenRows<T> make_product(const Factor<T>& a, const Factor<T>& b) {
  EigenRows<T> result(static_cast<Eigen::Index>(a.transposed ? a.cols : a.rows),
                      static_cast<Eigen::Index>(b.transposed ? b.rows : b.cols));
  multiply<T>(result, a, b, 1, 0);
  return result;
}

/// A product with ones, which BLAS takes row by row.
template <class T>
auto sum_columns(const Factor<T>& rows) {
  require_shapes(!rows.transposed);
  using Row = Eigen::Matrix<T, 1, Eigen::Dynamic>;
  const Row ones = Row::Ones(static_cast<Eigen::Index>(rows.rows));
  Row sums(static_cast<Eigen::Index>(rows.cols));
  multiply<T>(sums, ones, rows, 1, 0);
  return sums;
}

template <class T>
auto mean_columns(const Factor<T>& rows) {
  auto sums = sum_columns(rows);
  sums /= static_cast<T>(rows.rows);
  return sums;
}

}  // namespace

EigenRows<float> product(const Factor<float>& a, const Factor<float>& b) {
  return make_product(a, b);
}
EigenRows<double> product(const Factor<double>& a, const Factor<double>& b) {
  return make_product(a, b);
}
void set_product(const Target<float>& to, const Factor<float>& a, const Factor<float>& b, float scale) {
  multiply<float>(to, a, b, scale, 0);
}
void set_product(const Target<double>& to, const Factor<double>& a, const Factor<double>& b, double scale) {
  multiply<double>(to, a, b, scale, 0);
}
void add_product(const Target<float>& to, const Factor<float>& a, const Factor<float>& b, float scale) {
  multiply<float>(to, a, b, scale, 1);
}
void add_product(const Target<double>& to, const Factor<double>& a, const Factor<double>& b, double scale) {
  multiply<double>(to, a, b, scale, 1);
}

Eigen::RowVectorXf column_sums(const Factor<float>& rows) {
  return sum_columns(rows);
}
Eigen::RowVectorXd column_sums(const Factor<double>& rows) {
  return sum_columns(rows);
}
Eigen::RowVectorXf column_means(const Factor<float>& rows) {
  return mean_columns(rows);
}
Eigen::RowVectorXd column_means(const Factor<double>& rows) {
  return mean_columns(rows);
}

void apply_affine(MatrixView<const float> weight, std::span<const float> bias, MatrixView<const float> x,
                  MatrixView<float> y) {
  const Work work;
  as_eigen(y).rowwise() = as_eigen(bias);
  add_product(y, x, as_eigen(weight).transpose());
}

void add_gram(MatrixView<double> to, Triangle triangle, MatrixView<const double> rows, double scale) {
  require_shapes(to.rows == rows.cols && to.cols == rows.cols);
  const CBLAS_UPLO which = triangle == Triangle::upper ? CblasUpper : CblasLower;
  const BlasCall call;
  if (rows.rows == 1) {
    cblas_dsyr(CblasRowMajor, which, size_of(rows.cols), scale, rows.data, 1, to.data, stride_of(to.stride));
  } else {
    cblas_dsyrk(CblasRowMajor, which, CblasTrans, size_of(rows.cols), size_of(rows.rows), scale, rows.data,
                stride_of(rows.stride), 1, to.data, stride_of(to.stride));
  }
}

void mirror_lower(MatrixView<double> square) {
  require_shapes(square.rows == square.cols);
  for_lower_triangle(square.rows, [&](std::size_t r, std::size_t c) {
    square.data[c * square.stride + r] = square.data[r * square.stride + c];
  });
}

}  // namespace kedge
