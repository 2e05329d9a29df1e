// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "compute/products.h"
#include "compute/threads.h"

#include <kedge/fit.h>
#include <kedge/match.h>

#include <algorithm>

namespace kedge {
namespace {

/// Rows of the second space as the first would have them; the scale does not matter to an adapter.
Matrix64 rotate_back(const SpaceRotation& rotation, const Matrix64& rows) {
  const auto mean = [](const std::vector<float>& values) { return as_eigen(std::span(values)).cast<double>().eval(); };
  EigenRows<double> centred = as_eigen(rows.view());
  centred.rowwise() -= mean(rotation.second_mean);
  EigenRows<double> rotated = product(centred, EigenRows<double>(as_eigen(rotation.weight.view()).cast<double>()));
  rotated.rowwise() += mean(rotation.first_mean);
  return matrix_of<double>(rotated);
}

}  // namespace

Bundle rotation_bundle(const Match& match, const Space& first, const Space& second) {
  const Work work;
  FitOptions options;
  options.method = Adapter{Pairwise::procrustes};
  options.similarity = Similarity::inner;
  FitInput input;
  input.moments.push_back(compute_moments(first));
  input.moments.push_back(compute_moments(second));
  const std::size_t support = std::min(second.rows(), FitOptions::kDefaultSupport);
  // Every so many rows: an adapter does not depend on which.
  for (std::size_t i = 0; i < support; ++i) {
    input.support.ids.push_back(second.file_row(i * second.rows() / support));
  }
  Matrix64 rows = second.gather(input.support.ids);
  input.support.rows.push_back(rotate_back(match.rotation, rows));
  input.support.rows.push_back(std::move(rows));
  return fit(std::move(input), options);
}

}  // namespace kedge
