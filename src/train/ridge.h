// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <array>
#include <optional>
#include <vector>

namespace kedge {

/// Least squares with a penalty, targets ~ features M, for every strength from one eigendecomposition. The strength is
/// relative: rho stands for rho times the mean eigenvalue of features^T features / rows.
class Ridge {
 public:
  /// features: rows x dim, targets: rows x outputs. No intercept: centre them, or mean it.
  Ridge(MatrixView<const double> features, MatrixView<const double> targets);

  /// Generalised cross-validation: the mean squared error that leaving rows out would show.
  [[nodiscard]] double gcv(double rho) const;
  /// The strength of kStrengths with the least gcv().
  [[nodiscard]] double best() const;
  /// M, dim x outputs.
  [[nodiscard]] Matrix64 solve(double rho) const;
  /// Cross-validated share of each output's variance that is explained, from 1 down to -1: below 0 its mean does
  /// better. 0 for an output that is constant.
  [[nodiscard]] std::vector<float> r2(double rho) const;
  /// The mean of r2() over the outputs that vary.
  [[nodiscard]] double mean_r2(double rho) const;

  static constexpr std::array kStrengths{0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0};

 private:
  [[nodiscard]] std::vector<double> errors(double rho) const;

  std::size_t rows_;
  std::vector<double> values_;  ///< eigenvalues of features^T features / rows
  Matrix64 vectors_;            ///< row i belongs to values_[i]
  Matrix64 projected_;          ///< vectors features^T targets / rows
  double mean_value_ = 0;
  std::vector<double> squares_, variances_;  ///< of each output: mean square, and around its mean
};

}  // namespace kedge
