// SPDX-License-Identifier: Apache-2.0
#include "compute/change_of_basis.h"

#include "compute/products.h"

namespace kedge {

void ChangeOfBasis::apply_to_rows(MatrixView<double> x) const {
  if (factor_) return factor_->divide_rows(x);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, given, as_eigen(matrix_.view()).transpose());
}

void ChangeOfBasis::apply_to_columns(MatrixView<double> x) const {
  if (factor_) return factor_->divide_columns(x);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, matrix_.view(), given);
}

void ChangeOfBasis::adjoint_to_rows(MatrixView<double> x) const {
  if (factor_) return factor_->divide_rows(x, Cholesky::Side::adjoint);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, given, matrix_.view());
}

void ChangeOfBasis::adjoint_to_columns(MatrixView<double> x) const {
  if (factor_) return factor_->divide_columns(x, Cholesky::Side::adjoint);
  const EigenRows<double> given = as_eigen(x);
  set_product(x, as_eigen(matrix_.view()).transpose(), given);
}

}  // namespace kedge
