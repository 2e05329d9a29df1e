// SPDX-License-Identifier: Apache-2.0
#include "map/ridge_attach.h"

#include "backend/products.h"
#include "map/fold.h"
#include "solve/consensus.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace kedge {
namespace {

/// How far the coordinates that the penalty is measured in are whitened. Half-whitened, a direction of little variance
/// is held back more, which is worth much where support rows are few.
constexpr std::array kWhitenings{1.0, 0.5};
// The estimate is noisy itself: less than this, and the whitened coordinates of the similarity stay.
constexpr double kClearlyBetter = 0.99;
// With so many support rows per value of an embedding, the choice makes no difference worth its time.
constexpr std::size_t kFewRows = 4;

Matrix64 used_targets(const Matrix& targets) {
  Matrix64 result(targets.rows(), agreed_anchors(targets));
  as_eigen(result.view()) = as_eigen(targets.view()).leftCols(static_cast<Eigen::Index>(result.cols())).cast<double>();
  return result;
}

double require_strength(double strength) {
  if (strength >= 0 && strength <= kMostRidge) return strength;
  throw Error(Code::bad_argument, fmt::format("ridge is {}, expected a number from 0 to {}", strength, kMostRidge));
}

/// Whether the mean of the rows is zero but for rounding; by chance alone it is never that small.
bool is_centred(const Eigen::Ref<const EigenRows<double>>& rows) {
  constexpr double kRounding = 1e-10;
  return rows.colwise().mean().squaredNorm() <= kRounding * rows.squaredNorm() / static_cast<double>(rows.rows());
}

/// The features of one ridge: a scale for each eigenvector of the space's covariance.
struct Candidate {
  double whitening;
  Eigen::VectorXd scale;
  Ridge ridge;
  double strength;
};

Candidate make_candidate(const Matrix64& gram, const Matrix64& cross, std::span<const double> variances,
                         double whitening, const Spread& spread, std::size_t rows, double means,
                         std::optional<double> strength) {
  const auto values = as_eigen(variances);
  const Eigen::VectorXd scale = (values.array() / values.mean()).pow(-whitening / 2).transpose();
  Matrix64 scaled_gram = gram;
  Matrix64 scaled_cross = cross;
  auto g = as_eigen(scaled_gram.view());
  g.array().colwise() *= scale.array();
  g.array().rowwise() *= scale.transpose().array();
  as_eigen(scaled_cross.view()).array().colwise() *= scale.array();
  Ridge ridge(make_ridge_basis(std::move(scaled_gram), rows, 0, means), scaled_cross, spread);
  const double chosen = strength ? require_strength(*strength) : ridge.best();
  return {whitening, scale, std::move(ridge), chosen};
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
  basis_ = make_ridge_basis(std::move(gram), targets.rows(), kRounding * kRounding * means_.squaredNorm());
}

RidgeSupport::RidgeSupport(const RidgeTargets& targets, Matrix64 support, std::span<const double> mean)
    : targets_(targets),
      rows_(std::move(support)),
      mean_(as_eigen(mean)),
      cross_(rows_.cols(), targets.values().cols()) {
  auto rows = as_eigen(rows_.view());
  rows.rowwise() -= mean_;
  set_product(cross_.view(), rows.transpose(), targets.values().view(), 1 / static_cast<double>(rows_.rows()));
}

Attachment RidgeSupport::map(const std::string& space, Similarity similarity, const Whitening& coordinates,
                             std::optional<double> strength, bool mean_of_support) const {
  const auto rows = as_eigen(rows_.view());
  const auto vectors = as_eigen(coordinates.vectors.view());
  // All candidates live in the eigenbasis of the covariance, where whitening is a scale: the rows are needed once.
  Matrix64 raw(rows_.cols(), rows_.cols());
  add_gram(raw.view(), Triangle::lower, rows_.view(), 1 / static_cast<double>(rows_.rows()));
  as_eigen(raw.view()).triangularView<Eigen::StrictlyUpper>() = as_eigen(raw.view()).transpose();
  Matrix64 gram(rows_.cols(), rows_.cols());
  const EigenRows<double> half = product(vectors, raw.view());
  set_product(gram.view(), half, vectors.transpose());
  Matrix64 cross(cross_.rows(), cross_.cols());
  set_product(cross.view(), vectors, cross_.view());

  Spread spread = targets_.spread();
  if (mean_of_support) spread.squares = spread.variances;
  // Where the support is all of the rows, the mean is its own: with fewer rows than values, not counting the degree of
  // freedom that it takes makes a map that only repeats its rows look perfect.
  const double own_means = mean_of_support || is_centred(rows) ? 1 : 0;
  const auto candidate = [&](double whitening) {
    return make_candidate(gram, cross, coordinates.values, whitening, spread, rows_.rows(), own_means, strength);
  };
  Candidate best = candidate(kWhitenings.front());
  if (!strength && similarity == Similarity::wip && rows_.rows() < kFewRows * rows_.cols()) {
    Candidate other = candidate(kWhitenings.back());
    if (other.ridge.gcv(other.strength) < kClearlyBetter * best.ridge.gcv(best.strength)) best = std::move(other);
  }
  const Matrix64 solution = best.ridge.solve(best.strength);
  EigenRows<double> scaled = as_eigen(solution.view());
  scaled.array().colwise() *= best.scale.array();
  EigenRows<double> weight = EigenRows<double>::Zero(static_cast<Eigen::Index>(targets_.anchors()), rows.cols());
  weight.topRows(scaled.cols()) = product(scaled.transpose(), vectors);
  RidgeFit fit{best.strength, best.whitening, best.ridge.r2(best.strength), best.ridge.mean_r2(best.strength)};
  fit.r2.resize(targets_.anchors());
  const std::vector<double>& variances = targets_.spread().variances;
  const double variance = std::accumulate(variances.begin(), variances.end(), 0.0);
  const double error = best.ridge.gcv(best.strength) * static_cast<double>(variances.size());
  if (variance > 0) fit.error = error / variance;
  Eigen::RowVectorXd bias = -product(mean_, weight.transpose());
  if (mean_of_support) bias.head(scaled.cols()) += targets_.means();
  return {std::make_shared<RelativeMap>(fold(space, similarity, weight, bias, mean_)),
          AttachBy::ridge,
          0,
          std::move(fit),
          {}};
}

Decoder RidgeSupport::decoder(const std::string& space) const {
  const Eigen::RowVectorXd mean_x = column_means(rows_.view());
  Matrix64 cross(cross_.cols(), cross_.rows());
  as_eigen(cross.view()) = as_eigen(cross_.view()).transpose() - product(targets_.means().transpose(), mean_x);
  Spread spread = spread_of(rows_.view());
  spread.squares = spread.variances;  // centred on the support
  const Ridge ridge(targets_.basis(), cross, std::move(spread));
  const double strength = ridge.best();
  const Matrix64 solution = ridge.solve(strength);
  Decoder decoder{Matrix(rows_.cols(), targets_.anchors()),
                  std::vector<float>(rows_.cols()),
                  {strength, 0, ridge.r2(strength), ridge.mean_r2(strength)}};
  const auto used = static_cast<Eigen::Index>(solution.rows());
  as_eigen(decoder.weight.view()).leftCols(used) = as_eigen(solution.view()).transpose().cast<float>();
  as_eigen(std::span(decoder.bias)) = (mean_ + mean_x - product(targets_.means(), solution.view())).cast<float>();
  require_finite(space, decoder.weight, decoder.bias);
  return decoder;
}

}  // namespace kedge
