// SPDX-License-Identifier: Apache-2.0
#include "compute/whitener.h"

#include "compute/products.h"
#include "base/eigen.h"

namespace kedge {

void Whitener::whiten_rows(MatrixView<double> x) const {
  if (factor_) return factor_->whiten(x);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, given, as_eigen(basis_.view()).transpose());
}

void Whitener::whiten_columns(MatrixView<double> x) const {
  if (factor_) return factor_->whiten_columns(x);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, basis_.view(), given);
}

void Whitener::fold_rows(MatrixView<double> x) const {
  if (factor_) return factor_->fold(x);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, given, basis_.view());
}

void Whitener::fold_columns(MatrixView<double> x) const {
  if (factor_) return factor_->fold_columns(x);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, as_eigen(basis_.view()).transpose(), given);
}

}  // namespace kedge
