// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "compute/products.h"
#include "compute/threads.h"

#include <kedge/likeness.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace kedge {
namespace {

constexpr std::size_t kBlock = 1024;     // rows at a time
constexpr std::size_t kMostStrange = 5;  // row numbers in a message

WhiteningOptions options_of(const Moments& known) {
  const bool whole = !known.fourth().empty();
  return {.shrinkage = choose_shrinkage(whole ? ShrinkageRule::ledoit_wolf : ShrinkageRule::oas, known)};
}

struct Nearest {
  std::size_t model = 0;
  float distance = 0;
};

std::vector<Nearest> nearest_of(MatrixView<const float> rows, std::span<const KnownModel> models) {
  std::vector<Nearest> nearest(rows.rows, {0, std::numeric_limits<float>::infinity()});
  for (std::size_t m = 0; m < models.size(); ++m) {
    const std::vector<float> distances = models[m].likeness.distances(rows);
    for (std::size_t r = 0; r < rows.rows; ++r) {
      if (distances[r] < nearest[r].distance) nearest[r] = {m, distances[r]};
    }
  }
  return nearest;
}

}  // namespace

Likeness::Likeness(const Moments& known) : whitening_(make_whitening(known, options_of(known))) {
  const Work work;
  const auto mean = as_eigen(std::span(std::as_const(whitening_.mean)));
  const auto dim = static_cast<double>(whitening_.mean.size());
  const double squared_length = mean.squaredNorm() + known.total_variance();
  length_ = std::sqrt(squared_length);
  const double inverse_trace = as_eigen(std::span(std::as_const(whitening_.values))).array().inverse().sum();
  const EigenRows<double> whitened_mean = product(EigenRows<double>(mean), whitening_.whitener.view());
  chance_ = squared_length / dim * inverse_trace / dim + whitened_mean.squaredNorm() / dim;
}

bool Likeness::can_tell() const {
  constexpr double kLeastContrast = 2;  // below it, known rows and others overlap
  return chance_ > kLeastContrast;
}

std::vector<float> Likeness::distances(MatrixView<const float> rows) const {
  if (rows.cols != dim()) refuse("the rows have {} values, expected {} as the known rows have", rows.cols, dim());
  const Work work;
  EigenRows<double> scaled = as_eigen(rows).cast<double>();
  const Eigen::VectorXd lengths = scaled.rowwise().norm();
  for (Eigen::Index r = 0; r < scaled.rows(); ++r) {
    if (lengths[r] > 0) scaled.row(r) *= length_ / lengths[r];
  }
  whiten(whitening_, {scaled.data(), rows.rows, rows.cols, rows.cols});
  std::vector<float> distances(rows.rows, 1);
  for (std::size_t r = 0; r < rows.rows; ++r) {
    const auto row = static_cast<Eigen::Index>(r);
    const double squares = scaled.row(row).squaredNorm() / static_cast<double>(dim());
    if (lengths[row] > 0) distances[r] = static_cast<float>((squares - 1) / (chance_ - 1));
  }
  return distances;
}

ModelShares count_by_model(const Space& space, std::span<const KnownModel> models, const Progress& progress) {
  if (models.empty()) refuse("there is no known model to compare '{}' with", space.name());
  for (const KnownModel& model : models) {
    if (model.likeness.dim() == space.dim()) continue;
    refuse("'{}' has {} values a row, but '{}' has {}: they are of different models", space.name(), space.dim(),
           model.name, model.likeness.dim());
  }
  std::vector<Nearest> nearest;
  nearest.reserve(space.rows());
  ModelShares shares;
  shares.rows.resize(models.size());
  double squares = 0;
  Matrix block(std::min(kBlock, space.rows()), space.dim());
  for (std::size_t first = 0; first < space.rows(); first += block.rows()) {
    const MatrixView<float> rows = block.view().middle_rows(0, std::min(block.rows(), space.rows() - first));
    space.read(first, rows);
    squares += as_eigen(rows).cast<double>().squaredNorm();
    std::ranges::copy(nearest_of(rows, models), std::back_inserter(nearest));
    if (progress) progress({"comparing rows", first + rows.rows, space.rows(), {}});
  }
  for (const Nearest& row : nearest) {
    if (row.distance < Likeness::kLike)
      ++shares.rows[row.model];
    else
      ++(row.distance > Likeness::kUnlike ? shares.unlike : shares.between);
  }
  shares.length = std::sqrt(squares / static_cast<double>(std::max<std::size_t>(space.rows(), 1)));
  const auto most = static_cast<std::size_t>(std::ranges::max_element(shares.rows) - shares.rows.begin());
  for (std::size_t r = 0; r < nearest.size() && shares.first_strange.size() < kMostStrange; ++r) {
    const bool strange =
        nearest[r].distance > Likeness::kUnlike || (nearest[r].model != most && nearest[r].distance < Likeness::kLike);
    if (strange) shares.first_strange.push_back(space.file_row(r));
  }
  return shares;
}

}  // namespace kedge
