// SPDX-License-Identifier: Apache-2.0
#include "map/ridge_attach.h"

#include "backend/products.h"
#include "map/fold.h"
#include "solve/consensus.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace kedge {
namespace {

// How far the coordinates that the penalty is measured in may be whitened instead of fully: a direction of little
// variance is then held back more, which is worth much where support rows are few.
constexpr double kHalf = 0.5;
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

/// One ridge, and the coordinates of its features; none where they are the rows as they are.
struct Candidate {
  double whitening;
  std::shared_ptr<const WhiteningBasis> basis;
  Ridge ridge;
  double strength;

  /// The solution as what is multiplied with centred rows: outputs x dim.
  [[nodiscard]] EigenRows<double> weight() const {
    const Matrix64 solution = ridge.solve(strength);
    EigenRows<double> weight = as_eigen(solution.view()).transpose();
    const auto dim = static_cast<std::size_t>(weight.cols());
    if (basis) basis->fold_rows({weight.data(), static_cast<std::size_t>(weight.rows()), dim, dim});
    return weight;
  }
};

/// What all candidates have in common.
struct Products {
  Matrix64 gram, cross;  ///< of the centred rows, each divided by their number
  Spread spread;
  std::size_t rows;
  double means;
  Device device;
};

Candidate make_candidate(const Products& products, double whitening, std::shared_ptr<const WhiteningBasis> basis,
                         std::optional<double> strength) {
  Matrix64 gram = products.gram;
  Matrix64 cross = products.cross;
  if (basis) {
    basis->whiten_rows(gram.view());
    basis->whiten_columns(gram.view());
    basis->whiten_columns(cross.view());
  }
  Ridge ridge(make_ridge_basis(std::move(gram), products.rows, 0, products.means, products.device), cross,
              products.spread);
  const double chosen = strength ? require_strength(*strength) : ridge.best();
  return {whitening, std::move(basis), std::move(ridge), chosen};
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

Attachment RidgeSupport::map(Similarity similarity, const Statistics& statistics,
                             std::optional<double> strength) const {
  const auto rows = as_eigen(rows_.view());
  const bool mean_of_support = statistics.of_support;
  Products products{
      Matrix64(rows_.cols(), rows_.cols()), cross_, targets_.spread(), rows_.rows(), 0, statistics.device};
  add_gram(products.gram.view(), Triangle::lower, rows_.view(), 1 / static_cast<double>(rows_.rows()));
  as_eigen(products.gram.view()).triangularView<Eigen::StrictlyUpper>() = as_eigen(products.gram.view()).transpose();
  if (mean_of_support) products.spread.squares = products.spread.variances;
  // Where the support is all of the rows, the mean is its own: with fewer rows than values, not counting the degree of
  // freedom that it takes makes a map that only repeats its rows look perfect.
  if (mean_of_support || is_centred(rows)) products.means = 1;
  const bool whitens = similarity == Similarity::wip;
  Candidate best = make_candidate(products, 1, whitens ? basis_of(statistics) : nullptr, strength);
  if (!strength && whitens && rows_.rows() < kFewRows * rows_.cols()) {
    Candidate other = make_candidate(products, kHalf, half_basis_of(statistics), strength);
    if (other.ridge.gcv(other.strength) < kClearlyBetter * best.ridge.gcv(best.strength)) best = std::move(other);
  }
  EigenRows<double> weight = EigenRows<double>::Zero(static_cast<Eigen::Index>(targets_.anchors()), rows.cols());
  const auto used = static_cast<Eigen::Index>(targets_.values().cols());
  weight.topRows(used) = best.weight();
  RidgeFit fit{best.strength, best.whitening, best.ridge.r2(best.strength), best.ridge.mean_r2(best.strength)};
  fit.r2.resize(targets_.anchors());
  const std::vector<double>& variances = targets_.spread().variances;
  const double variance = std::accumulate(variances.begin(), variances.end(), 0.0);
  const double error = best.ridge.gcv(best.strength) * static_cast<double>(variances.size());
  if (variance > 0) fit.error = error / variance;
  Eigen::RowVectorXd bias = -product(mean_, weight.transpose());
  if (mean_of_support) bias.head(used) += targets_.means();
  return {std::make_shared<RelativeMap>(fold(statistics.space(), similarity, weight, bias, mean_)),
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
