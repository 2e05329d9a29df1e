// SPDX-License-Identifier: Apache-2.0
#include "match/principal.h"

#include "base/parallel.h"
#include "base/random.h"
#include "base/rows.h"
#include "base/wording.h"
#include "compute/lapack.h"
#include "compute/products.h"

#include <kedge/relative_map.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kedge {
namespace {

constexpr std::size_t kBlock = 1024;  // rows read or projected at once

/// The mean of all rows; those at `places`, which ascend, are kept.
std::vector<double> read_rows(const Space& space, std::span<const std::size_t> places, Matrix& kept,
                              const Progress& progress) {
  Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(static_cast<Eigen::Index>(space.dim()));
  Matrix read(std::min(kBlock, space.rows()), space.dim());
  std::size_t next = 0;
  for (std::size_t first = 0; first < space.rows(); first += kBlock) {
    const MatrixView<float> block = read.view().middle_rows(0, std::min(kBlock, space.rows() - first));
    space.read(first, block);
    for (std::size_t r = 0; r < block.rows; ++r) sum += as_eigen(block.row(r)).cast<double>();
    for (; next < places.size() && places[next] < first + block.rows; ++next) {
      std::ranges::copy(block.row(places[next] - first), kept.row(next).begin());
    }
    if (progress) progress({"reading " + space.name(), first + block.rows, space.rows(), ""});
  }
  sum /= static_cast<double>(space.rows());
  return {sum.begin(), sum.end()};
}

/// Returns the mean squared length of centred rows.
template <class T>
double center_and_normalize(MatrixView<T> rows, std::span<const double> mean, MatrixView<float> out) {
  double squares = 0;
  for (std::size_t r = 0; r < rows.rows; ++r) {
    Eigen::RowVectorXd centred = as_eigen(rows.row(r)).template cast<double>() - as_eigen(mean);
    const double length = centred.norm();
    // What rounding leaves of a row that is the mean points nowhere.
    if (length <= 1e-6 * as_eigen(mean).norm()) centred.setZero();
    as_eigen(out.row(r)) = (centred / std::max(length, 1e-300)).template cast<float>();
    squares += length * length;
  }
  return squares / static_cast<double>(rows.rows);
}

}  // namespace

Matrix cross_product(MatrixView<const float> first, MatrixView<const float> second) {
  constexpr std::size_t kColumns = 32;
  Matrix result(first.cols, second.cols);
  parallel_blocks(first.cols, kColumns, threads(), [&] {
    return [&](std::size_t from, std::size_t cols) {
      set_product(result.view().middle_rows(from, cols), as_eigen(first.middle_cols(from, cols)).transpose(), second);
    };
  });
  return result;
}

Matrix project(MatrixView<const float> rows, const Matrix& weight) {
  Matrix result(rows.rows, weight.rows());
  parallel_blocks(rows.rows, kBlock, threads(), [&] {
    return [&](std::size_t from, std::size_t count) {
      const MatrixView<float> block = result.view().middle_rows(from, count);
      set_product(block, rows.middle_rows(from, count), as_eigen(weight.view()).transpose());
      normalize_rows(block);
    };
  });
  return result;
}

Matrix PrincipalRows::coordinates(const Matrix64& embeddings) const {
  Matrix unit(embeddings.rows(), mean.size());
  center_and_normalize(embeddings.view(), mean, unit.view());
  Matrix result(embeddings.rows(), rank());
  const OneThread alone;
  set_product(result.view(), unit.view(), as_eigen(basis.view()).transpose());
  return result;
}

Matrix PrincipalRows::half_whitened(const Matrix& coordinates) const {
  Matrix result = coordinates;
  Eigen::RowVectorXf scale(static_cast<Eigen::Index>(rank()));
  for (std::size_t i = 0; i < rank(); ++i) {
    scale[static_cast<Eigen::Index>(i)] = static_cast<float>(std::pow(variances[i] / variances[0], -0.25));
  }
  as_eigen(result.view()).array().rowwise() *= scale.array();
  normalize_rows(result.view());
  return result;
}

PrincipalRows read_principal_rows(const Space& space, std::size_t most_rows, std::size_t most_rank, std::uint64_t seed,
                                  const Progress& progress) {
  PrincipalRows found;
  std::vector<std::size_t> places = Random(seed).sample(space.rows(), std::min(space.rows(), most_rows));
  std::ranges::sort(places);
  Matrix kept(places.size(), space.dim());
  found.mean = read_rows(space, places, kept, progress);
  found.spread = center_and_normalize(std::as_const(kept).view(), found.mean, kept.view());
  const Matrix gram = cross_product(kept.view(), kept.view());
  Matrix64 covariance = matrix_of<double>(as_eigen(gram.view()).cast<double>() / static_cast<double>(kept.rows()));
  const OneThread alone;
  const Eigenpairs pairs = eigh_largest(std::move(covariance), std::min(most_rank, space.dim()));
  const double largest = pairs.values.back();
  if (!(largest > 0)) {
    refuse_file("space '{}': all rows of {} are the same, so nothing tells them apart", space.name(),
                space.source().label());
  }
  // float32 sums leave directions that are not there with a variance of this size.
  constexpr double kLeastVariance = 1e-6;
  const auto rank = static_cast<std::size_t>(
      std::ranges::count_if(pairs.values, [&](double value) { return value > kLeastVariance * largest; }));
  found.basis = Matrix(rank, space.dim());
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t from = pairs.values.size() - 1 - i;
    found.variances.push_back(pairs.values[from]);
    as_eigen(found.basis.row(i)) = as_eigen(pairs.vectors.row(from)).cast<float>();
  }
  found.rows = Matrix(kept.rows(), rank);
  set_product(found.rows.view(), std::as_const(kept).view(), as_eigen(std::as_const(found.basis).view()).transpose());
  return found;
}

}  // namespace kedge
