// SPDX-License-Identifier: Apache-2.0
#include "backend/eigh.h"
#include "base/eigen.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/whitening.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kedge {
namespace {

constexpr std::size_t kBlockValues = std::size_t{1} << 21;  // 16 MB of float64: large enough for BLAS, small in memory

void require_variation(const Space& space, const Moments& moments) {
  const double spread = as_eigen(moments.covariance.view()).trace();
  if (!std::isfinite(spread)) {
    throw Error(Code::bad_file,
                fmt::format("space '{}': the values of {} are too large to square; rescale the embeddings",
                            space.name(), space.source().label()));
  }
  const double rounding = std::numeric_limits<double>::epsilon() * as_eigen(std::span(moments.mean)).norm();
  if (spread > rounding * rounding) return;
  throw Error(Code::bad_file,
              fmt::format("space '{}': rows {}:{} of {} are all the same, so they cannot be told apart; "
                          "is it the right file?",
                          space.name(), space.range().begin, space.range().end, space.source().label()));
}

}  // namespace

MomentSums::MomentSums(std::size_t dim) : mean_(dim), scatter_(dim, dim) {}

void MomentSums::add(MatrixView<double> block) {
  if (block.rows == 0) return;
  MomentSums part(mean_.size());
  auto rows = as_eigen(block);
  auto mean = as_eigen(std::span(part.mean_));
  mean = rows.colwise().mean();
  rows.rowwise() -= mean;
  as_eigen(part.scatter_.view()).selfadjointView<Eigen::Lower>().rankUpdate(rows.transpose());
  part.rows_ = block.rows;
  merge(part);
}

void MomentSums::merge(const MomentSums& other) {
  // Chan's formula: centred sums stay accurate however far the mean is from zero.
  if (other.rows_ == 0) return;
  const double total = static_cast<double>(rows_ + other.rows_);
  const double weight = static_cast<double>(other.rows_) / total;
  auto mean = as_eigen(std::span(mean_));
  const Eigen::RowVectorXd shift = as_eigen(std::span(other.mean_)) - mean;
  auto scatter = as_eigen(scatter_.view());
  scatter += as_eigen(other.scatter_.view());
  scatter.selfadjointView<Eigen::Lower>().rankUpdate(shift.transpose(), static_cast<double>(rows_) * weight);
  mean += weight * shift;
  rows_ += other.rows_;
}

Moments MomentSums::moments() const {
  if (rows_ == 0) throw Error(Code::bad_argument, "statistics need at least one row");
  Moments result{rows_, mean_, Matrix64(mean_.size(), mean_.size())};
  as_eigen(result.covariance.view()) =
      EigenRows<double>(as_eigen(scatter_.view()).selfadjointView<Eigen::Lower>()) / static_cast<double>(rows_);
  return result;
}

Moments compute_moments(const Space& space, const Progress& progress) {
  const std::size_t block_rows = std::max<std::size_t>(1, std::min(space.rows(), kBlockValues / space.dim()));
  MomentSums sums(space.dim());
  Matrix64 buffer(block_rows, space.dim());
  for (std::size_t first = 0; first < space.rows(); first += block_rows) {
    const auto block = buffer.view().middle_rows(0, std::min(block_rows, space.rows() - first));
    space.read(first, block);
    space.source().release(space.range().begin + first, block.rows);
    sums.add(block);
    if (progress) progress({"reading " + space.name(), first + block.rows, space.rows(), ""});
  }
  Moments moments = sums.moments();
  require_variation(space, moments);
  return moments;
}

Whitening make_whitening(const Moments& moments, const WhiteningOptions& options) {
  if (!(options.shrinkage >= 0 && options.shrinkage <= 1)) {
    throw Error(Code::bad_argument, fmt::format("shrinkage is {}, expected a number from 0 to 1", options.shrinkage));
  }
  if (!(options.epsilon >= 0) || std::isinf(options.epsilon)) {
    throw Error(Code::bad_argument,
                fmt::format("epsilon is {}, expected 0 or a small positive number", options.epsilon));
  }
  const auto dim = static_cast<double>(moments.mean.size());
  Whitening result{moments.mean, moments.covariance, Matrix64(moments.mean.size(), moments.mean.size())};
  auto covariance = as_eigen(result.covariance.view());
  const double spread = covariance.trace() / dim;
  covariance *= 1 - options.shrinkage;
  covariance.diagonal().array() += options.shrinkage * spread + options.epsilon;

  const Eigenpairs pairs = eigh(result.covariance);
  const double smallest = pairs.values.front();
  const double noise = pairs.values.back() * dim * std::numeric_limits<double>::epsilon();
  if (!(smallest > noise)) {
    throw Error(Code::bad_argument,
                "the covariance is singular, so it cannot be whitened: some direction of the space "
                "never varies; raise the shrinkage or epsilon above 0");
  }
  // Row i of `vectors` scaled by values^(-1/4) on both sides of the product gives sum_i v_i v_i^T / sqrt(values_i).
  EigenRows<double> scaled = as_eigen(pairs.vectors.view());
  for (std::size_t i = 0; i < pairs.values.size(); ++i) {
    scaled.row(static_cast<Eigen::Index>(i)) /= std::pow(pairs.values[i], 0.25);
  }
  as_eigen(result.whitener.view()).noalias() = scaled.transpose() * scaled;
  return result;
}

void whiten(const Whitening& whitening, MatrixView<double> rows) {
  auto x = as_eigen(rows);
  x.rowwise() -= as_eigen(std::span(whitening.mean));
  x = x * as_eigen(whitening.whitener.view());
}

}  // namespace kedge
