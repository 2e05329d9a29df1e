// SPDX-License-Identifier: Apache-2.0
#include "fit/mixture_fit.h"

#include "base/eigen.h"
#include "compute/lapack.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace kedge {
namespace {

// An estimate over a few hundred rows is near enough, and takes a small part of the time of attaching.
constexpr std::size_t kMostRows = 500;

/// The squared lengths of whitened rows: what a row adds to its own similarity.
Eigen::VectorXd squared_lengths(const Matrix64& rows, const Statistics& statistics) {
  Matrix64 centred(rows.rows(), rows.cols());
  auto cells = as_eigen(centred.view());
  cells = as_eigen(rows.view()).rowwise() - as_eigen(statistics.mean());
  const Cholesky factor(shrunk_covariance(statistics.moments(), statistics.options()));
  if (factor.exists()) {
    factor.divide_rows(centred.view());
  } else {
    cells = as_eigen(rows.view());
    whiten(statistics.whitening(), centred.view());
  }
  return cells.rowwise().squaredNorm();
}

/// Explained share of one output's variance, as of a ridge: 1 down to -1; none for one that is constant.
std::optional<double> r2_of(const Eigen::ArrayXd& truth, const Eigen::ArrayXd& found, const Eigen::ArrayXd& counts) {
  const double rows = counts.sum();
  if (rows < 2) return {};
  const double mean = (truth * counts).sum() / rows;
  const double variance = ((truth - mean).square() * counts).sum();
  if (!(variance > 0)) return {};
  return std::max(-1.0, 1 - ((truth - found).square() * counts).sum() / variance);
}

}  // namespace

MixtureFit mixture_fit(const LearnedAnchors& anchors, bool convex, const RelativeMap& map, const Matrix64& support,
                       const Statistics& statistics) {
  const std::size_t rows = std::min(support.rows(), kMostRows);
  std::vector<std::size_t> positions(rows);
  Matrix64 x(rows, support.cols());
  for (std::size_t i = 0; i < rows; ++i) {
    positions[i] = i * support.rows() / rows;
    std::ranges::copy(support.row(positions[i]), x.row(i).begin());
  }
  const Eigen::VectorXd lengths = squared_lengths(x, statistics);
  Matrix x32(x.rows(), x.cols());
  as_eigen(x32.view()) = as_eigen(x.view()).cast<float>();
  const Matrix rr = map.apply(x32.view());
  const auto count = static_cast<Eigen::Index>(rows);
  MixtureFit fit{std::vector<float>(rr.cols()), 0};
  std::size_t varying = 0;
  for (std::size_t anchor = 0; anchor < rr.cols(); ++anchor) {
    Eigen::ArrayXd truth(count), found(count), counts = Eigen::ArrayXd::Ones(count);
    for (Eigen::Index i = 0; i < count; ++i) {
      const std::size_t row = static_cast<std::size_t>(i);
      const double weight = anchors.mixture.row(anchor)[positions[row]];
      const double rest = convex ? 1 - weight : 1;
      constexpr double kAlone = 1e-6;  // such an anchor is this row: without it nothing is left
      truth[i] = anchors.targets.row(positions[row])[anchor];
      if (rest < kAlone) counts[i] = 0;
      found[i] = rest < kAlone ? 0 : (rr.row(row)[anchor] - weight * lengths[i]) / rest;
    }
    const std::optional<double> r2 = r2_of(truth, found, counts);
    fit.r2[anchor] = static_cast<float>(r2.value_or(0));
    fit.mean_r2 += r2.value_or(0);
    if (r2) ++varying;
  }
  if (varying > 0) fit.mean_r2 /= static_cast<double>(varying);
  return fit;
}

}  // namespace kedge
