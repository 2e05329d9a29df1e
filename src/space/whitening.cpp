// SPDX-License-Identifier: Apache-2.0
#include "space/whitening.h"

#include "base/wording.h"
#include "compute/products.h"
#include "compute/threads.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kedge {
namespace {

constexpr Names<ShrinkageRule, 3> kShrinkageRuleNames{"shrinkage rule", {"fixed", "ledoit-wolf", "oas"}};
constexpr Names<Similarity, 6> kSimilarityNames{"similarity",
                                                {"wip", "cosine", "euclidean", "inner", "angular", "manhattan"}};

double fourth_moment(const Moments& moments) {
  if (!moments.fourth().empty()) return moments.fourth().front() / static_cast<double>(moments.rows());
  refuse(
      "the moments of '{}' lack the sums that Ledoit-Wolf needs, as those taken on a GPU do; take them on the "
      "processor, or give a shrinkage or the rule oas",
      moments.parts().front().space);
}

void require_varying(std::span<const double> ascending) {
  const double noise =
      ascending.back() * static_cast<double>(ascending.size()) * std::numeric_limits<double>::epsilon();
  if (ascending.front() > noise) return;
  refuse(
      "the covariance is singular, so it cannot be whitened: some direction of the space never varies; raise the "
      "shrinkage or epsilon above 0");
}

/// Row i of B is eigenvector i, divided by its value to the power of whitened / 2.
std::shared_ptr<const ChangeOfBasis> whitener_of(Matrix64 vectors, std::span<const double> values, double whitened) {
  as_eigen(vectors.view()).array().colwise() *= as_eigen(values).array().pow(-whitened / 2).transpose();
  return std::make_shared<ChangeOfBasis>(std::move(vectors));
}

/// No eigenvalue is below the variance that shrinkage spreads evenly, and none above the total variance: with enough
/// shrinkage, the condition need not be estimated.
bool is_comfortable(const Cholesky& factor, const WhiteningOptions& options) {
  const auto dim = static_cast<double>(factor.factor().rows());
  return factor.exists() && (options.shrinkage / dim > Cholesky::kComfortable || factor.is_comfortable());
}

}  // namespace

std::string_view to_string(ShrinkageRule rule) {
  return kShrinkageRuleNames.of(rule);
}
ShrinkageRule parse_shrinkage_rule(std::string_view name) {
  return kShrinkageRuleNames.parse(name);
}

std::string_view to_string(Similarity similarity) {
  return kSimilarityNames.of(similarity);
}
Similarity parse_similarity(std::string_view name) {
  return kSimilarityNames.parse(name);
}
std::vector<std::string_view> similarity_names() {
  return kSimilarityNames.all();
}

double choose_shrinkage(ShrinkageRule rule, const Moments& moments) {
  const Matrix64 cells = moments.covariance();
  const auto covariance = as_eigen(cells.view());
  const auto rows = static_cast<double>(moments.rows());
  const auto dim = static_cast<double>(moments.dim());
  const double trace = covariance.trace();
  const double squares = covariance.squaredNorm();
  const double from_sphere = squares - trace * trace / dim;  // squared distance from a multiple of the identity
  if (!(from_sphere > 0)) return 1;
  double shrinkage = 0;
  switch (rule) {
    case ShrinkageRule::fixed: refuse("a fixed shrinkage is given, not chosen");
    case ShrinkageRule::ledoit_wolf: shrinkage = (fourth_moment(moments) - squares) / rows / from_sphere; break;
    case ShrinkageRule::oas: shrinkage = (squares + trace * trace) / ((rows + 1) * from_sphere); break;
  }
  return std::clamp(shrinkage, 0.0, 1.0);
}

Matrix64 shrunk_covariance(const Moments& moments, const WhiteningOptions& options) {
  if (!(options.shrinkage >= 0 && options.shrinkage <= 1)) {
    refuse("shrinkage is {}, expected a number from 0 to 1", options.shrinkage);
  }
  if (!(options.epsilon >= 0) || std::isinf(options.epsilon)) {
    refuse("epsilon is {}, expected 0 or a small positive number", options.epsilon);
  }
  Matrix64 shrunk = moments.covariance();
  auto covariance = as_eigen(shrunk.view());
  const double spread = covariance.trace() / static_cast<double>(moments.dim());
  covariance *= 1 - options.shrinkage;
  covariance.diagonal().array() += options.shrinkage * spread + options.epsilon;
  return shrunk;
}

Whitening make_whitening(const Moments& moments, const WhiteningOptions& options, Device device) {
  const Work work;
  const auto mean = moments.mean();
  Whitening result{{mean.begin(), mean.end()}, shrunk_covariance(moments, options), {}, {}, {}};
  Eigenpairs pairs = eigh_with_root(result.covariance, result.whitener, device);
  require_varying(pairs.values);
  result.values = std::move(pairs.values);
  result.vectors = std::move(pairs.vectors);
  return result;
}

void whiten(const Whitening& whitening, MatrixView<double> rows) {
  const Work work;
  auto x = as_eigen(rows);
  x.rowwise() -= as_eigen(std::span(whitening.mean));
  x = product(x, whitening.whitener.view());
}

WhiteningBasis::WhiteningBasis(const Whitening& whitening, double whitened)
    : mean_(whitening.mean), whitener_(whitener_of(whitening.vectors, whitening.values, whitened)) {}

WhiteningBasis::WhiteningBasis(const Moments& moments, const WhiteningOptions& options, Device device, double whitened)
    : mean_(moments.mean().begin(), moments.mean().end()) {
  const Work work;
  if (whitened == 1) {
    Cholesky factor(shrunk_covariance(moments, options));
    if (is_comfortable(factor, options)) {
      whitener_ = std::make_shared<ChangeOfBasis>(std::move(factor));
      return;
    }
  }
  Eigenpairs pairs = eigh(shrunk_covariance(moments, options), device);
  require_varying(pairs.values);
  whitener_ = whitener_of(std::move(pairs.vectors), pairs.values, whitened);
}

Statistics::Statistics(Moments moments, WhiteningOptions options, ShrinkageRule rule, Device device, bool of_support)
    : moments_(std::move(moments)), options_(options), device_(device), of_support_(of_support) {
  if (rule != ShrinkageRule::fixed) options_.shrinkage = choose_shrinkage(rule, moments_);
}

Statistics Statistics::whitened() const {
  Statistics same = *this;
  if (!whitening_) same.whitening_ = std::make_shared<const Whitening>(whitening());
  return same;
}

Whitening Statistics::whitening() const {
  return whitening_ ? *whitening_ : make_whitening(moments_, options_, device_);
}

WhiteningBasis Statistics::basis(double whitened) const {
  if (whitening_) return WhiteningBasis(*whitening_, whitened);
  return {moments_, options_, device_, whitened};
}

void require_whitenable(const Statistics& statistics) {
  constexpr double kDrowned = 10;  // so many times the variance, and the whitened rows are no longer white
  const double variance = statistics.moments().total_variance() / static_cast<double>(statistics.dim());
  const double epsilon = statistics.options().epsilon;
  if (epsilon <= kDrowned * variance) return;
  refuse_file(
      "space '{}': its values vary by {:.1e} on average, so little that the epsilon of {:.1e} added to their variance "
      "drowns them out; rescale the embeddings, e.g. divide them by their standard deviation, or lower epsilon",
      statistics.space(), std::sqrt(variance), epsilon);
}

Whitening coordinates_of(Similarity similarity, const Statistics& statistics) {
  if (similarity == Similarity::wip) return statistics.whitening();
  const std::size_t dim = statistics.dim();
  const double spread = statistics.moments().total_variance();
  Whitening scaled{{statistics.mean().begin(), statistics.mean().end()},
                   statistics.moments().covariance(),
                   Matrix64(dim, dim),
                   std::vector<double>(dim, spread),
                   Matrix64(dim, dim)};
  as_eigen(scaled.whitener.view()).diagonal().setConstant(1 / std::sqrt(spread));
  as_eigen(scaled.vectors.view()).setIdentity();
  return scaled;
}

Coordinates::Coordinates(Similarity similarity, const Statistics& statistics) {
  const bool angles = similarity == Similarity::cosine || similarity == Similarity::angular;
  if (!angles) whitening_ = coordinates_of(similarity, statistics);
}

void Coordinates::apply(MatrixView<double> rows) const {
  if (whitening_) return whiten(*whitening_, rows);
  auto cells = as_eigen(rows);
  for (Eigen::Index r = 0; r < cells.rows(); ++r) cells.row(r).normalize();
}

}  // namespace kedge
