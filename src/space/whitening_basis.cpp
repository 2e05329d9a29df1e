// SPDX-License-Identifier: Apache-2.0
#include "space/whitening_basis.h"

#include "backend/products.h"
#include "backend/threads.h"
#include "base/eigen.h"

namespace kedge {
namespace {

Matrix64 basis_of(const Whitening& whitening, double whitened) {
  Matrix64 basis = whitening.vectors;
  const auto values = as_eigen(std::span(whitening.values));
  as_eigen(basis.view()).array().colwise() *= values.array().pow(-whitened / 2).transpose();
  return basis;
}

}  // namespace

WhiteningBasis::WhiteningBasis(const Whitening& whitening, double whitened)
    : mean_(whitening.mean), basis_(basis_of(whitening, whitened)) {}

WhiteningBasis::WhiteningBasis(const Moments& moments, const WhiteningOptions& options, Device device)
    : mean_(moments.mean().begin(), moments.mean().end()) {
  const Work work;
  constexpr double kComfortable = 1e-10;  // far from where float64 would call it singular
  Cholesky factor(shrunk_covariance(moments, options));
  if (factor.exists() && factor.reciprocal_condition() > kComfortable) {
    factor_ = std::move(factor);
  } else {
    basis_ = basis_of(make_whitening(moments, options, device), 1);
  }
}

void WhiteningBasis::whiten_rows(MatrixView<double> x) const {
  if (factor_) return factor_->whiten(x);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, given, as_eigen(basis_.view()).transpose());
}

void WhiteningBasis::whiten_columns(MatrixView<double> x) const {
  if (factor_) return factor_->whiten_columns(x);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, basis_.view(), given);
}

void WhiteningBasis::fold_rows(MatrixView<double> x) const {
  if (factor_) return factor_->fold(x);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, given, basis_.view());
}

}  // namespace kedge
