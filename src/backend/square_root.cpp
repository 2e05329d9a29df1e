// SPDX-License-Identifier: Apache-2.0
#include "backend/square_root.h"

#include "base/eigen.h"

#include <cmath>
#include <utility>

namespace kedge {

/// Y and Z go to A^(1/2) and A^(-1/2) while T = (3 I - Z Y) / 2 goes to I. A is scaled so that no eigenvalue is above
/// 1, as convergence needs; those far below it then grow by 9/4 a step.
std::optional<Matrix64> square_root(Dense& dense, const Matrix64& symmetric) {
  constexpr int kMostSteps = 40;
  constexpr double kConverged = 1e-12;
  const std::size_t dim = symmetric.rows();
  const double scale = as_eigen(symmetric.view()).cwiseAbs().rowwise().sum().maxCoeff();
  if (!(scale > 0) || std::isinf(scale)) return {};
  Matrix64 host = symmetric;
  as_eigen(host.view()) /= scale;
  Dense::Owned y = dense.make(dim, dim), z = dense.make(dim, dim), t = dense.make(dim, dim);
  Dense::Owned identity = dense.make(dim, dim), next = dense.make(dim, dim);
  dense.upload(host, *y);
  as_eigen(host.view()).setIdentity();
  dense.upload(host, *identity);
  dense.upload(host, *z);
  const double goal = kConverged * std::sqrt(static_cast<double>(dim));
  double last = std::sqrt(static_cast<double>(dim));
  for (int step = 0; step < kMostSteps; ++step) {
    dense.multiply(-0.5, *z, *y, 0, *t);
    dense.add(0.5, *identity, *t);
    const double distance = dense.norm(*t);  // of T from I
    if (!std::isfinite(distance)) return {};
    // It halves the digits that are missing at every step, until only rounding is left.
    if (distance <= goal) {
      dense.download(*y, host);
      as_eigen(host.view()) *= std::sqrt(scale);
      return host;
    }
    if (distance > 2 * last) return {};
    last = distance;
    dense.add(1, *identity, *t);
    dense.multiply(1, *y, *t, 0, *next);
    std::swap(y, next);
    dense.multiply(1, *t, *z, 0, *next);
    std::swap(z, next);
  }
  return {};
}

}  // namespace kedge
