// SPDX-License-Identifier: Apache-2.0
#include "space/row_sketch.h"

#include "base/random.h"
#include "compute/lapack.h"
#include "compute/products.h"

#include <kedge/whitening.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

constexpr double kShrinkage = WhiteningOptions{}.shrinkage;
// Few rows take little time and can have more directions.
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
  add_gram(covariance.view(), Triangle::upper, view_of(rows), (1 - kShrinkage) / static_cast<double>(rows.rows()));
  auto cells = as_eigen(covariance.view());
  const double mean_variance = cells.trace() / static_cast<double>(width);
  cells.diagonal().array() += kShrinkage * mean_variance;
  const Cholesky factor(std::move(covariance));
  if (factor.exists()) factor.divide_rows(view_of(rows));
}

/// Positions that are looked up together, and the others.
struct Fold {
  std::vector<Eigen::Index> looked_up, anchors;
};

/// Each row is looked up in one of them: few rows a fifth at a time, which leaves more to look through; many a third.
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

/// Compares the pairs of a fold with all ways to pair its rows at random, whose mean and variance have a closed form.
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

/// How much more alike each pair is than random ones, in standard deviations of the latter.
Eigen::ArrayXd deviations_of(std::span<const FoundRow> rows) {
  Eigen::ArrayXd result(static_cast<Eigen::Index>(rows.size()));
  std::ranges::transform(rows, result.data(), [](const FoundRow& row) {
    return row.variance > 0 ? row.above / std::sqrt(row.variance) : 0;
  });
  return result;
}

/// The block whose values have the largest sum, in one pass (Kadane).
OddBlock largest_sum(const Eigen::ArrayXd& values) {
  OddBlock best;
  double sum = 0, most = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(values.size()); ++i) {
    if (sum <= 0) {
      sum = 0;
      begin = i;
    }
    sum += values[static_cast<Eigen::Index>(i)];
    if (sum > most) {
      most = sum;
      best = {begin, i + 1};
    }
  }
  return best;
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
  constexpr std::size_t kPlenty = 200;  // rows are enough if what they tell is beyond doubt
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

std::optional<OddBlock> find_odd_block(std::span<const FoundRow> rows) {
  constexpr std::size_t kLeastRows = 8;
  constexpr std::size_t kEdge = 5;    // so few rows between a block and the end belong to it: some are found by chance
  constexpr double kNotByChance = 5;  // the oddest of all blocks of true pairs stays below 4
  const Eigen::ArrayXd found = deviations_of(rows);
  OddBlock block = largest_sum(std::max(found.mean(), 0.0) / 2 - found);
  if (block.begin < kEdge) block.begin = 0;
  if (rows.size() - block.end < kEdge) block.end = rows.size();
  const std::size_t inside = block.end - block.begin, outside = rows.size() - inside;
  if (inside < kLeastRows || outside < kLeastRows) return {};
  const auto in_block = found.segment(static_cast<Eigen::Index>(block.begin), static_cast<Eigen::Index>(inside));
  const double count = static_cast<double>(outside), mean = (found.sum() - in_block.sum()) / count;
  const double variance = ((found - mean).square().sum() - (in_block - mean).square().sum()) / count;
  const double errors = 1 / static_cast<double>(inside) + 1 / count;
  block.contrast = (mean - in_block.mean()) / std::sqrt(std::max(variance, 1.0) * errors);
  if (!(block.contrast > kNotByChance)) return {};
  return block;
}

}  // namespace kedge
