// SPDX-License-Identifier: Apache-2.0
#include "stitch/plane.h"

#include "compute/lapack.h"
#include "compute/products.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

/// Rounds to more digits than a plot shows, also for a cloud far from the origin.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return 0;
  const double scale = std::pow(10, 6 - std::ceil(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace

Plane::Plane(const Matrix& rows) {
  const EigenRows<double> cells = as_eigen(rows.view()).cast<double>();
  mean_ = column_means(cells);
  const EigenRows<double> centred = cells.rowwise() - mean_;
  Matrix64 products(rows.cols(), rows.cols());
  set_product(products.view(), centred.transpose(), centred);
  const Eigenpairs top = eigh_largest(std::move(products), std::min<std::size_t>(2, rows.cols()));
  const auto vectors = as_eigen(top.vectors.view());
  axes_ = EigenRows<double>::Zero(2, vectors.cols());
  for (Eigen::Index i = 0; i < vectors.rows(); ++i) {
    axes_.row(i) = vectors.row(vectors.rows() - 1 - i);
    Eigen::Index largest = 0;
    axes_.row(i).cwiseAbs().maxCoeff(&largest);
    if (axes_(i, largest) < 0) axes_.row(i) *= -1;  // a sign that does not depend on the solver
  }
}

std::vector<std::array<double, 2>> Plane::points(const Matrix& rows) const {
  const EigenRows<double> cells = as_eigen(rows.view()).cast<double>();
  const EigenRows<double> seen = product(EigenRows<double>(cells.rowwise() - mean_), axes_.transpose());
  std::vector<std::array<double, 2>> points;
  for (Eigen::Index r = 0; r < seen.rows(); ++r) points.push_back({rounded(seen(r, 0)), rounded(seen(r, 1))});
  return points;
}

double mean_centred_cosine(const std::vector<Matrix>& features) {
  std::vector<EigenRows<double>> centred;
  for (const Matrix& rows : features) {
    centred.emplace_back(as_eigen(rows.view()).cast<double>());
    centred.back().rowwise() -= column_means(centred.back());
  }
  double sum = 0;
  std::size_t pairs = 0;
  for (std::size_t i = 0; i < centred.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j, ++pairs) {
      const auto& a = centred[i];
      const auto& b = centred[j];
      for (Eigen::Index r = 0; r < a.rows(); ++r) {
        const double lengths = a.row(r).norm() * b.row(r).norm();
        if (lengths > 0) sum += a.row(r).dot(b.row(r)) / lengths / static_cast<double>(a.rows());
      }
    }
  }
  return pairs == 0 ? 0 : sum / static_cast<double>(pairs);
}

}  // namespace kedge
