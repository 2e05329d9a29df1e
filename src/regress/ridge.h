// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/covariance.h"

#include <array>

namespace kedge {

/// Rows that are there more than once. Leaving out one of them tells nothing, because the others still predict it:
/// equal rows have to be left out together.
class RepeatedRows {
 public:
  explicit RepeatedRows(MatrixView<const double> rows);

  /// For each row, the one that stands for all with the same values and, up to rounding, the same targets; most rows
  /// stand for themselves. Equal rows with other targets are other inputs that the space cannot tell apart.
  [[nodiscard]] std::vector<std::size_t> stand_ins(MatrixView<const double> targets) const;
  /// How many rows stand for themselves.
  [[nodiscard]] std::size_t distinct(MatrixView<const double> targets) const;

 private:
  std::size_t rows_;
  std::vector<std::vector<std::size_t>> alike_;  ///< rows with the same values, two or more of them, ascending
};

/// The features of a ridge, decomposed once for all strengths and targets.
struct RidgeBasis {
  std::size_t rows;
  std::shared_ptr<const DecomposedGram> gram;  ///< features^T features / rows
  std::vector<double> values;                  ///< its eigenvalues
  double mean_value = 0;
  double noise = 0;  ///< eigenvalues below it mean nothing
  double means = 0;  ///< degrees of freedom that centring took: 1 if the rows are centred on their own mean
};

/// The degrees of freedom that centring took from rows whose columns have these means and mean squares: 1 if the means
/// are zero up to rounding, which they never are by chance; 0 if the rows were centred on another mean.
[[nodiscard]] double taken_by_centring(std::span<const double> means, std::span<const double> mean_squares);

/// Give `noise` if the features were rounded more coarsely than float64.
[[nodiscard]] std::shared_ptr<const RidgeBasis> make_ridge_basis(std::shared_ptr<const DecomposedGram> gram,
                                                                 std::size_t rows, double noise = 0, double means = 0);

/// How far each target varies.
struct Spread {
  std::vector<double> squares, variances;  ///< mean squares, of the targets as they are and around their means
};
[[nodiscard]] Spread spread_of(MatrixView<const double> targets);

/// Least squares with a penalty, targets ~ features M. One decomposition serves every strength, each of which costs no
/// more than reading the products of the targets. A strength rho stands for rho times the mean eigenvalue of
/// features^T features / rows. There is no intercept, so centre both.
class Ridge {
 public:
  /// `cross` is features^T targets / rows, dim x outputs; `distinct`, how many rows differ: by default, all.
  Ridge(std::shared_ptr<const RidgeBasis> basis, const Matrix64& cross, Spread targets,
        std::optional<std::size_t> distinct = {});
  /// features: rows x dim, targets: rows x outputs; `means` as in a basis.
  Ridge(MatrixView<const double> features, MatrixView<const double> targets, double means = 0);

  /// Generalised cross-validation: the mean squared error at rows that are left out, each with the rows equal to it.
  [[nodiscard]] double gcv(double rho) const;
  /// Of these strengths, the one with the least gcv().
  [[nodiscard]] double best(std::span<const double> strengths = kStrengths) const;
  /// M, dim x outputs.
  [[nodiscard]] Matrix64 solve(double rho) const;
  /// Cross-validated share of each output's variance that is explained, from 1 down to -1: below 0 its mean does
  /// better. 0 for an output that is constant.
  [[nodiscard]] std::vector<float> r2(double rho) const;
  /// The mean of r2() over the outputs that vary.
  [[nodiscard]] double mean_r2(double rho) const;

  static constexpr std::array kStrengths{0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0};

 private:
  [[nodiscard]] double penalty(double rho) const;
  [[nodiscard]] std::vector<double> errors(double rho) const;

  std::shared_ptr<const RidgeBasis> basis_;
  Matrix64 projected_;  ///< cross in the basis
  Spread targets_;
  std::size_t distinct_;
};

}  // namespace kedge
