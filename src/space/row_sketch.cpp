// SPDX-License-Identifier: Apache-2.0
#include "space/row_sketch.h"

#include "base/random.h"
#include "compute/lapack.h"
#include "compute/products.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

constexpr double kShrinkage = 0.15;  // as whitening's own default: few rows need it, many do not mind
// Few rows take little time, so that they can have more directions.
constexpr std::size_t kProjectedValues = 192'000;
constexpr std::size_t kLeastWidth = 128, kMostWidth = 512;

Eigen::Index width_for(std::size_t rows) {
  return static_cast<Eigen::Index>(std::clamp(kProjectedValues / rows, kLeastWidth, kMostWidth));
}

/// Centred and of a common size, so that float32 holds whatever an encoder gives.
EigenRows<float> centre(MatrixView<const double> rows) {
  EigenRows<double> centred = as_eigen(rows).rowwise() - column_means(rows);
  const double largest = centred.cwiseAbs().maxCoeff();
  if (largest > 0) centred /= largest;
  return centred.cast<float>();
}

void whiten(EigenRows<double>& rows) {
  const auto width = static_cast<std::size_t>(rows.cols());
  Matrix64 covariance(width, width);
  add_gram(covariance.view(), Triangle::upper, {rows.data(), static_cast<std::size_t>(rows.rows()), width, width},
           (1 - kShrinkage) / static_cast<double>(rows.rows()));
  auto cells = as_eigen(covariance.view());
  const double mean_variance = cells.trace() / static_cast<double>(width);
  cells.diagonal().array() += kShrinkage * mean_variance;
  const Cholesky factor(std::move(covariance));
  if (factor.exists()) factor.divide_rows({rows.data(), static_cast<std::size_t>(rows.rows()), width, width});
}

/// Positions that are looked up together, and the others.
struct Fold {
  std::vector<Eigen::Index> looked_up, anchors;
};

/// Every row is looked up in one of them: a fifth at a time of few rows, which leaves more to look through, else a
/// third.
std::vector<Fold> folds_of(std::size_t rows) {
  constexpr std::size_t kFew = 600;
  const std::size_t parts = rows < kFew ? 5 : 3;
  std::vector<Fold> folds(parts);
  for (std::size_t f = 0; f < folds.size(); ++f) {
    for (std::size_t row = 0; row < rows; ++row) {
      (row % parts == f ? folds[f].looked_up : folds[f].anchors).push_back(static_cast<Eigen::Index>(row));
    }
  }
  return folds;
}

EigenRows<float> pick(const EigenRows<float>& rows, const std::vector<Eigen::Index>& positions) {
  return rows(positions, Eigen::all);
}

/// How alike row i of one space and row j of the other are, seen through the anchors' rows.
EigenRows<float> similarities(const EigenRows<float>& own, const EigenRows<float>& other, const Fold& fold) {
  const EigenRows<float> through = product(pick(own, fold.anchors).transpose(), pick(other, fold.anchors));
  const EigenRows<float> mapped = product(pick(own, fold.looked_up), through);
  return product(mapped, pick(other, fold.looked_up).transpose());
}

/// The pairs of a fold against all ways to pair its rows at random, whose mean and variance are known in closed form.
void add_found(LookedUp& result, const EigenRows<float>& similar, const Fold& fold) {
  const Eigen::Index count = similar.rows();
  EigenRows<double> centred = similar.cast<double>();
  centred.rowwise() -= column_means(centred);
  const Eigen::VectorXd row_means = centred.rowwise().mean();
  centred.colwise() -= row_means;
  for (Eigen::Index i = 0; i < count; ++i) {
    FoundRow found{static_cast<std::size_t>(fold.looked_up[static_cast<std::size_t>(i)]), centred(i, i),
                   centred.row(i).squaredNorm() / static_cast<double>(std::max<Eigen::Index>(count - 1, 1)), 0};
    if ((similar.row(i).array() <= similar(i, i)).all()) {
      found.first = 1 / static_cast<double>((similar.row(i).array() == similar(i, i)).count());  // a tie is a guess
    }
    result.rows.push_back(found);
  }
  result.among = std::max(result.among, static_cast<std::size_t>(count));
}

}  // namespace

std::vector<std::size_t> checked_positions(std::size_t total) {
  std::vector<std::size_t> positions(std::min(total, kMostCheckedRows));
  for (std::size_t i = 0; i < positions.size(); ++i) positions[i] = i * total / positions.size();
  return positions;
}

EigenRows<float> project_rows(const EigenRows<float>& rows, Eigen::Index width) {
  if (rows.cols() <= width) return rows;
  Random random(0);
  EigenRows<float> directions(rows.cols(), width);
  std::uint64_t bits = 0;
  for (Eigen::Index i = 0; i < directions.size(); ++i, bits >>= 1) {
    if (i % 64 == 0) bits = random.bits();
    directions.data()[i] = (bits & 1) != 0 ? 1.0F : -1.0F;
  }
  return product(rows, directions);
}

EigenRows<float> sketch_rows(MatrixView<const double> rows) {
  EigenRows<double> sketch = project_rows(centre(rows), width_for(rows.rows)).cast<double>();
  whiten(sketch);
  for (Eigen::Index r = 0; r < sketch.rows(); ++r) {
    const double length = sketch.row(r).norm();
    if (length > 0) sketch.row(r) /= length;
  }
  return sketch.cast<float>();
}

LookedUp look_up(const EigenRows<float>& own, std::span<const EigenRows<float>> others) {
  constexpr std::size_t kPlenty = 200;  // rows that tell, where they do so beyond doubt
  constexpr double kBeyondDoubt = 15;
  LookedUp result;
  for (const Fold& fold : folds_of(static_cast<std::size_t>(own.rows()))) {
    EigenRows<float> similar = similarities(own, others.front(), fold);
    for (const EigenRows<float>& other : others.subspan(1)) similar += similarities(own, other, fold);
    add_found(result, similar, fold);
    if (result.rows.size() >= kPlenty && check_of(result.rows, result.among).deviations > kBeyondDoubt) break;
  }
  return result;
}

RowCheck check_of(std::span<const FoundRow> rows, std::size_t among) {
  RowCheck check;
  check.rows = rows.size();
  check.among = among;
  double first = 0, above = 0, variance = 0;
  for (const FoundRow& row : rows) {
    first += row.first;
    above += row.above;
    variance += row.variance;
  }
  if (!rows.empty()) check.found_first = first / static_cast<double>(rows.size());
  check.deviations = variance > 0 ? above / std::sqrt(variance) : 0;
  return check;
}

}  // namespace kedge
