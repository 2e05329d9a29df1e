// SPDX-License-Identifier: Apache-2.0
#include "regress/kernel_ridge.h"

#include "base/eigen.h"
#include "base/refuse.h"
#include "base/rows.h"
#include "base/wording.h"
#include "compute/kernel_system.h"
#include "compute/products.h"
#include "regress/kernel_choice.h"
#include "regress/repeated_rows.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

namespace kedge {
namespace {

/// Sigma_lambda^(-w/2), scaled so that it keeps the mean variance.
Matrix64 whitener_of(const Whitening& coordinates, double whitening) {
  const auto vectors = as_eigen(coordinates.vectors.view());
  EigenRows<double> scaled = vectors;
  scaled.array().colwise() *= whitening_scale(coordinates.values, whitening).transpose().array();
  Matrix64 whitener(coordinates.vectors.cols(), coordinates.vectors.cols());
  set_product(whitener.view(), vectors.transpose(), scaled);
  return whitener;
}

/// f of the support.
Matrix features_of(const KernelTask& task, const Matrix64& whitener) {
  EigenRows<double> rows = as_eigen(task.support).rowwise() - as_eigen(std::span(task.coordinates.mean));
  if (whitener.rows() != 0) rows = product(rows, whitener.view());
  return unit_rows(view_of(rows));
}

Matrix64 centred(MatrixView<const double> targets, const Eigen::RowVectorXd& means) {
  Matrix64 result(targets.rows, targets.cols);
  as_eigen(result.view()) = as_eigen(targets).rowwise() - means;
  return result;
}

/// Rows of which no two are the same, and for each the rows it stands for, itself among them.
struct Distinct {
  std::vector<std::size_t> rows;
  std::vector<std::vector<std::size_t>> alike;  ///< by row; empty for those that another stands for

  Distinct(MatrixView<const double> support, MatrixView<const double> targets) : alike(support.rows) {
    const std::vector<std::size_t> stand_ins = RepeatedRows(support).stand_ins(targets);
    for (std::size_t row = 0; row < stand_ins.size(); ++row) {
      alike[stand_ins[row]].push_back(row);
      if (stand_ins[row] == row) rows.push_back(row);
    }
  }
};

/// [(K + ridge I)^-1]_ii for a row that is left out together with all `count` equal rows. Those differ by the ridge
/// alone, so that their block of the inverse is 1/ridge I + (value - 1/ridge) 1 1^T.
double joint_diagonal(double value, std::size_t count, double ridge) {
  if (count == 1) return value;
  const auto size = static_cast<double>(count);
  return std::max(size * value - (size - 1) / ridge, 1 / (size + ridge));  // a bound that only rounding can pass
}

/// How well each output is met at rows that are left out: e_i = C_i / [(K + ridge I)^-1]_ii.
void judge(KernelFit& fit, const KernelSystem& system, const Matrix64& solution, const Matrix64& residuals,
           const Distinct& distinct, double ridge) {
  const std::vector<std::size_t> positions = pick_spread(distinct.rows, kMostJudged);
  const std::vector<double> diagonal = system.inverse_diagonal(positions);
  Eigen::ArrayXd errors = Eigen::ArrayXd::Zero(static_cast<Eigen::Index>(solution.cols()));
  Eigen::ArrayXd squares = errors;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const std::vector<std::size_t>& alike = distinct.alike[positions[i]];
    Eigen::RowVectorXd mean = Eigen::RowVectorXd::Zero(errors.size());
    for (const std::size_t row : alike) mean += as_eigen(solution.row(row)) / static_cast<double>(alike.size());
    errors += (mean.array() / joint_diagonal(diagonal[i], alike.size(), ridge)).square().transpose();
    squares += as_eigen(residuals.row(positions[i])).array().square().transpose();
  }
  std::size_t varying = 0;
  fit.r2.assign(solution.cols(), 0.0F);
  for (std::size_t c = 0; c < solution.cols(); ++c) {
    const double square = squares[static_cast<Eigen::Index>(c)];
    if (!(square > 0)) continue;
    const double r2 = std::max(-1.0, 1 - errors[static_cast<Eigen::Index>(c)] / square);
    fit.r2[c] = static_cast<float>(r2);
    fit.mean_r2 += r2;
    ++varying;
  }
  if (varying > 0) fit.mean_r2 /= static_cast<double>(varying);
  fit.error = squares.sum() > 0 ? errors.sum() / squares.sum() : 0;
}

}  // namespace

std::vector<std::size_t> pick_spread(std::span<const std::size_t> rows, std::size_t most) {
  const std::size_t count = std::min(rows.size(), most);
  std::vector<std::size_t> picked(count);
  for (std::size_t i = 0; i < count; ++i) picked[i] = rows[i * rows.size() / count];
  return picked;
}

Eigen::RowVectorXd whitening_scale(std::span<const double> variances, double whitening) {
  const auto values = as_eigen(variances);
  return (values.array() / values.mean()).pow(-whitening / 2);
}

KernelRegression regress_kernel(const KernelTask& task, const KernelOptions& options) {
  require_valid(options);
  const Eigen::RowVectorXd means = column_means(task.targets);
  const Matrix64 residuals = centred(task.targets, means);
  const bool has_yardstick = task.yardstick.rows != 0;
  const Matrix64 judged = has_yardstick ? centred(task.yardstick, column_means(task.yardstick)) : Matrix64();
  const Distinct distinct(task.support, has_yardstick ? task.yardstick : task.targets);
  const KernelChoice choice = choose_kernel(task, has_yardstick ? judged : residuals, distinct.rows, options);

  KernelRegression result;
  Kernel& kernel = result.kernel;
  Matrix64 whitener;
  if (choice.whitening != 0) {
    whitener = whitener_of(task.coordinates, choice.whitening);
    kernel.whitener = Matrix(whitener.rows(), whitener.cols());
    as_eigen(kernel.whitener.view()) = as_eigen(whitener.view()).cast<float>();
  }
  kernel.width = choice.width;
  kernel.rows = features_of(task, whitener);
  const auto system = make_kernel_system(kernel.rows.view(), task.device);
  // Even kLeastStrength is far above what rounding takes from the system, however much alike the rows are.
  const double ridge = choice.strength * static_cast<double>(task.support.rows);
  if (!system->factor(choice.width, ridge)) {
    throw Error(Code::failed, "the system of a kernel holds values that are NaN or infinite");
  }
  Matrix64 solution = residuals;
  system->solve(solution.view());
  result.fit = {choice.width, choice.strength, choice.whitening, {}, 0, 0};
  if (has_yardstick) {
    Matrix64 of_yardstick = judged;
    system->solve(of_yardstick.view());
    judge(result.fit, *system, of_yardstick, judged, distinct, ridge);
  } else {
    judge(result.fit, *system, solution, residuals, distinct, ridge);
  }

  // exp(g (c - 1)) = exp(-g) (1 + g c + q(g c)): the first two parts become a bias and a weight.
  auto coefficients = as_eigen(solution.view());
  coefficients *= std::exp(-choice.width);
  const EigenRows<double> rows = as_eigen(kernel.rows.view()).cast<double>();
  result.weight = Matrix64(task.targets.cols, task.support.cols);
  set_product(result.weight.view(), coefficients.transpose(), rows, choice.width);
  result.bias.resize(task.targets.cols);
  as_eigen(std::span(result.bias)) = means + column_sums(solution.view());
  kernel.coefficients = Matrix(solution.rows(), solution.cols());
  as_eigen(kernel.coefficients.view()) = coefficients.cast<float>();
  return result;
}

void require_valid(const KernelOptions& options) {
  const auto require = [](std::string_view name, const std::optional<double>& value, double least, double most) {
    if (!value || (*value >= least && *value <= most)) return;
    refuse("{} is {}, expected a number from {} to {}", option_words(name), *value, least, most);
  };
  require("kernel-width", options.width, kLeastWidth, kMostWidth);
  require("kernel-strength", options.strength, kLeastStrength, kMostStrength);
  require("kernel-whitening", options.whitening, 0, 1);
}

}  // namespace kedge
