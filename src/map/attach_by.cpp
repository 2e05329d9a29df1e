// SPDX-License-Identifier: Apache-2.0
#include "map/attach_by.h"

#include "anchors/consensus.h"
#include "base/wording.h"
#include "compute/products.h"
#include "map/fold.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace kedge {
namespace {

// The estimate is noisy itself: less than this, and the whitened coordinates of the similarity stay.
constexpr double kClearlyBetter = 0.99;
// With so many support rows per value of an embedding, the choice makes no difference worth its time.
constexpr std::size_t kFewRows = 4;

Matrix64 used_targets(const Matrix& targets) {
  return matrix_of<double>(as_eigen(targets.view()).leftCols(static_cast<Eigen::Index>(agreed_anchors(targets))));
}

double require_strength(double strength) {
  if (strength >= 0 && strength <= kMostRidge) return strength;
  refuse("ridge is {}, expected a number from 0 to {}", strength, kMostRidge);
}

struct Chosen {
  double whitening;
  Ridge ridge;
  double strength, error;
};

/// In percent of what such a regression usually takes.
std::function<void(double)> tell_of(const Progress& progress, const std::string& space, double expected) {
  if (!progress) return {};
  return
      [&progress, step = fmt::format("making the kernel map of {}", space), expected, done = 0.0](double work) mutable {
        constexpr double kAll = 100;
        done += work;
        progress({step, static_cast<std::size_t>(std::min(kAll - 1, kAll * done / expected)),
                  static_cast<std::size_t>(kAll), ""});
      };
}

KernelRegression regress(const Statistics& from, MatrixView<const double> support, MatrixView<const double> targets,
                         bool translates, const KernelOptions& options, const Progress& progress,
                         const Whitening* onto = nullptr) {
  Whitening coordinates = from.whitening();
  for (double& value : coordinates.mean) value = static_cast<float>(value);  // the very mean that a map subtracts
  const double work = kernel_work(support.rows, support.cols, targets.cols);
  return regress_kernel(
      {support, coordinates, targets, from.device(), translates, onto, tell_of(progress, from.space(), work)}, options);
}

/// `outputs` may be more than were regressed; the others are always 0.
RelativeMap as_map(const std::string& space, Similarity similarity, KernelRegression regression, std::size_t outputs,
                   std::span<const double> mean) {
  const auto used = static_cast<Eigen::Index>(regression.weight.rows());
  EigenRows<double> weight =
      EigenRows<double>::Zero(static_cast<Eigen::Index>(outputs), static_cast<Eigen::Index>(regression.weight.cols()));
  weight.topRows(used) = as_eigen(regression.weight.view());
  Eigen::RowVectorXd bias = Eigen::RowVectorXd::Zero(static_cast<Eigen::Index>(outputs));
  bias.head(used) = as_eigen(std::span(std::as_const(regression.bias)));
  if (outputs != regression.weight.rows()) {
    Matrix padded(regression.kernel.coefficients.rows(), outputs);
    as_eigen(padded.view()).leftCols(used) = as_eigen(regression.kernel.coefficients.view());
    regression.kernel.coefficients = std::move(padded);
  }
  require_finite(space, regression.kernel.coefficients, {});
  require_finite(space, regression.kernel.whitener, {});
  const RelativeMap linear = fold(space, similarity, weight, bias, as_eigen(mean));
  return {space, similarity, linear.weight(), linear.bias(), linear.mean(), std::move(regression.kernel)};
}

}  // namespace

RidgeTargets::RidgeTargets(const Matrix& targets) : anchors_(targets.cols()), values_(used_targets(targets)) {
  means_ = column_means(values_.view());
  spread_ = spread_of(std::as_const(values_).view());
  Matrix64 gram(values_.cols(), values_.cols());
  add_gram(gram.view(), Triangle::upper, values_.view(), 1 / static_cast<double>(targets.rows()));
  add_gram(gram.view(), Triangle::upper, {means_.data(), 1, values_.cols(), values_.cols()}, -1);
  // Targets are float32: what varies around their means by less than its rounding is noise.
  constexpr double kRounding = std::numeric_limits<float>::epsilon();
  basis_ = make_ridge_basis(decompose_gram(std::move(gram)), targets.rows(),
                            kRounding * kRounding * means_.squaredNorm(), 1);
}

RidgeRows::RidgeRows(const Matrix64& support, const Statistics& statistics)
    : mean_(as_eigen(statistics.mean())),
      rows_(centre_rows(support, statistics.mean(), statistics.device())),
      means_(rows_->means()),
      mean_squares_(rows_->mean_squares()),
      repeated_(support.view()) {}

void RidgeRows::prepare(Similarity similarity, const Statistics& statistics, bool chooses,
                        const std::optional<WhiteningBasis>& basis, bool translates) {
  // If the support is all of the rows, the mean is its own and takes a degree of freedom. With fewer rows than values,
  // a map that only repeats its rows would look perfect if that were not counted.
  const double taken = statistics.of_support() ? 1 : taken_by_centring(means_, mean_squares_);
  const auto add = [&](double whitening, const std::shared_ptr<const ChangeOfBasis>& whitener) {
    candidates_.push_back({whitening, make_ridge_basis(rows_->decompose(whitener), rows_->rows(), 0, taken)});
  };
  if (similarity != Similarity::wip) return add(1, nullptr);
  add(1, basis ? basis->whitener() : statistics.basis().whitener());
  if (!chooses || rows_->rows() >= kFewRows * rows_->dim()) return;
  add(kHalf, statistics.basis(kHalf).whitener());
  if (translates) add(0, nullptr);
}

RelativeMap RidgeRows::mix(MatrixView<const double> weights, const Statistics& statistics, Matrix64& rr) const {
  Matrix64 anchors = rows_->cross(weights);
  const auto whitener = statistics.basis().whitener();
  whitener->apply_to_columns(anchors.view());
  whitener->adjoint_to_columns(anchors.view());
  const EigenRows<double> folded = static_cast<double>(rows_->rows()) * as_eigen(anchors.view()).transpose();
  rr = rows_->times(view_of(folded));
  return fold(statistics.space(), Similarity::wip, folded, -product(mean_, folded.transpose()), mean_);
}

Spread RidgeRows::spread_around_means() const {
  Spread spread;
  for (std::size_t c = 0; c < means_.size(); ++c) {
    spread.variances.push_back(std::max(0.0, mean_squares_[c] - means_[c] * means_[c]));
  }
  spread.squares = spread.variances;
  return spread;
}

RidgeSupport::RidgeSupport(const RidgeTargets& targets, const RidgeRows& rows)
    : targets_(targets),
      rows_(rows),
      cross_(rows.centred().cross(targets.values().view())),
      distinct_(rows.repeated().distinct(targets.values().view())) {}

Attachment RidgeSupport::map(Similarity similarity, const Statistics& statistics,
                             std::optional<double> strength) const {
  const bool mean_of_support = statistics.of_support();
  Spread spread = targets_.spread();
  if (mean_of_support) spread.squares = spread.variances;
  std::optional<Chosen> best;
  for (const RidgeRows::Candidate& candidate : rows_.candidates()) {
    Ridge ridge(candidate.basis, cross_, spread, distinct_);
    const double chosen = strength ? require_strength(*strength) : ridge.best();
    const double error = ridge.gcv(chosen);
    if (best && !(error < kClearlyBetter * best->error)) continue;
    best.emplace(Chosen{candidate.whitening, std::move(ridge), chosen, error});
  }
  const Chosen& found = best.value();
  const Matrix64 solution = found.ridge.solve(found.strength);
  const auto used = static_cast<Eigen::Index>(solution.cols());
  EigenRows<double> weight = EigenRows<double>::Zero(static_cast<Eigen::Index>(targets_.anchors()),
                                                     static_cast<Eigen::Index>(solution.rows()));
  weight.topRows(used) = as_eigen(solution.view()).transpose();
  RidgeFit fit{found.strength, found.whitening, found.ridge.r2(found.strength), found.ridge.mean_r2(found.strength)};
  fit.r2.resize(targets_.anchors());
  const std::vector<double>& variances = targets_.spread().variances;
  const double variance = std::accumulate(variances.begin(), variances.end(), 0.0);
  if (variance > 0) fit.error = found.error * static_cast<double>(variances.size()) / variance;
  Eigen::RowVectorXd bias = -product(rows_.mean(), weight.transpose());
  if (mean_of_support) bias.head(used) += targets_.means();
  return {std::make_shared<RelativeMap>(fold(statistics.space(), similarity, weight, bias, rows_.mean())),
          ByRidge{std::move(fit)}, statistics.options().shrinkage};
}

Decoder RidgeSupport::decoder(const std::string& space) const {
  const Eigen::RowVectorXd mean_x = as_eigen(rows_.means());
  const Matrix64 cross =
      matrix_of<double>(as_eigen(cross_.view()).transpose() - product(targets_.means().transpose(), mean_x));
  const Ridge ridge(targets_.basis(), cross, rows_.spread_around_means(), distinct_);
  const double strength = ridge.best();
  const Matrix64 solution = ridge.solve(strength);
  Decoder decoder{Matrix(cross_.rows(), targets_.anchors()),
                  std::vector<float>(cross_.rows()),
                  {strength, 0, ridge.r2(strength), ridge.mean_r2(strength)}};
  const auto used = static_cast<Eigen::Index>(solution.rows());
  as_eigen(decoder.weight.view()).leftCols(used) = as_eigen(solution.view()).transpose().cast<float>();
  as_eigen(std::span(decoder.bias)) =
      (rows_.mean() + mean_x - product(targets_.means(), solution.view())).cast<float>();
  require_finite(space, decoder.weight, decoder.bias);
  return decoder;
}

Attachment attach_by_kernel(const RidgeTargets& targets, MatrixView<const double> support, Similarity similarity,
                            const Statistics& statistics, const KernelOptions& options, const Progress& progress) {
  const std::string& space = statistics.space();
  KernelRegression regression = regress(statistics, support, targets.values().view(), false, options, progress);
  KernelFit fit = std::move(regression.fit);
  fit.r2.resize(targets.anchors());
  return {std::make_shared<RelativeMap>(
              as_map(space, similarity, std::move(regression), targets.anchors(), statistics.mean())),
          ByKernel{std::move(fit)}, statistics.options().shrinkage};
}

std::pair<RelativeMap, KernelFit> translate_by_kernel(const Statistics& from, MatrixView<const double> from_support,
                                                      MatrixView<const double> to_support, Similarity similarity,
                                                      const KernelOptions& options, const Progress& progress,
                                                      const Whitening* onto, bool restores) {
  KernelRegression regression = regress(from, from_support, to_support, restores, options, progress, onto);
  KernelFit fit = std::move(regression.fit);
  return {as_map(from.space(), similarity, std::move(regression), to_support.cols, from.mean()), std::move(fit)};
}

}  // namespace kedge
