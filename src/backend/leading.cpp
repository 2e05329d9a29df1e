// SPDX-License-Identifier: Apache-2.0
#include "backend/leading.h"

#include "backend/cholesky.h"
#include "base/eigen.h"
#include "base/random.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

constexpr double kAccuracy = 1e-11;  // of C v - w v, as a share of the largest eigenvalue
constexpr double kWanted = 1e13;     // by which a polynomial has to raise what is wanted above the rest
constexpr double kMostStretch =
    1e6;                        // of a basis, before it is made orthonormal again: its square must have digits left
constexpr double kSpare = 100;  // by which the accuracy is aimed to be better
constexpr double kMostDegrees = 240;  // beyond, a decomposition is faster
constexpr int kEstimates = 3, kAttempts = 5;

/// A subspace of a few more directions than are wanted, rows of V, which polynomials of the matrix C turn towards its
/// leading eigenvectors. T_k stays within 1 on the eigenvalues from 0 to `edge`, and grows fast above.
class Subspace {
 public:
  Subspace(Dense& dense, const Matrix64& symmetric, std::size_t width)
      : dense_(dense),
        dim_(symmetric.rows()),
        width_(width),
        matrix_(dense.make(dim_, dim_)),
        basis_(dense.make(width, dim_)),
        next_(dense.make(width, dim_)),
        small_(dense.make(width, width)) {
    dense_.upload(symmetric, *matrix_);
    Random random(0);
    Matrix64 start(width, dim_);
    std::uint64_t bits = 0;
    std::size_t used = 0;
    for (double& cell : start.cells()) {
      if (used++ % 64 == 0) bits = random.bits();
      cell = (bits & 1) != 0 ? 1.0 : -1.0;
      bits >>= 1;
    }
    dense_.upload(start, *basis_);
  }

  /// V = T_degree((2 C - edge) / edge) V. False where the rows are no basis any more.
  bool filter(double edge, int degree) {
    dense_.multiply(2 / edge, *basis_, *matrix_, 0, *next_);
    dense_.add(-1, *basis_, *next_);
    for (int k = 1; k < degree; ++k) {
      // T_(k+1) = 2 x T_k - T_(k-1), in place of the last.
      dense_.multiply(4 / edge, *next_, *matrix_, -1, *basis_);
      dense_.add(-2, *next_, *basis_);
      std::swap(basis_, next_);
    }
    std::swap(basis_, next_);
    return orthonormalise();
  }

  /// V C V^T, or nothing where the rows are no basis any more.
  [[nodiscard]] std::optional<Matrix64> projected() {
    if (!orthonormalise()) return {};  // once more, for what rounding left the first time
    dense_.multiply(1, *basis_, *matrix_, 0, *next_);
    dense_.multiply_transposed(1, *next_, *basis_, *small_);
    Matrix64 result(width_, width_);
    dense_.download(*small_, result);
    return result;
  }

  struct Found {
    Eigenpairs pairs;
    double distance;  ///< the largest, of C v from w v
    double least;     ///< eigenvalue within the subspace
  };

  /// The leading `count` eigenvectors within the subspace, whose basis they become.
  std::optional<Found> leading(std::size_t count) {
    std::optional<Matrix64> small = projected();
    if (!small) return {};
    Eigenpairs own = eigh(std::move(*small));
    Matrix64 turn(width_, width_);  // the largest first
    for (std::size_t i = 0; i < width_; ++i) std::ranges::copy(own.vectors.row(width_ - 1 - i), turn.row(i).begin());
    dense_.upload(turn, *small_);
    dense_.multiply(1, *small_, *basis_, 0, *next_);
    std::swap(basis_, next_);
    dense_.multiply(1, *basis_, *matrix_, 0, *next_);
    Matrix64 vectors(count, dim_), turned(count, dim_);
    dense_.download(*basis_, vectors);
    dense_.download(*next_, turned);
    Eigenpairs pairs{std::vector<double>(count), Matrix64(count, dim_)};
    double worst = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const double value = own.values[width_ - 1 - i];
      const auto vector = as_eigen(std::as_const(vectors).row(i));
      worst = std::max(worst, (as_eigen(std::as_const(turned).row(i)) - value * vector).norm());
      pairs.values[count - 1 - i] = value;
      as_eigen(pairs.vectors.row(count - 1 - i)) = vector;
    }
    return Found{std::move(pairs), worst, own.values.front()};
  }

 private:
  /// By the Cholesky decomposition of the rows' products.
  bool orthonormalise() {
    dense_.multiply_transposed(1, *basis_, *basis_, *small_);
    Matrix64 products(width_, width_);
    dense_.download(*small_, products);
    const Cholesky factor(std::move(products));
    if (!factor.exists()) return false;
    Matrix64 inverse(width_, width_);
    as_eigen(inverse.view()).setIdentity();
    factor.whiten_columns(inverse.view());
    dense_.upload(inverse, *small_);
    dense_.multiply(1, *small_, *basis_, 0, *next_);
    std::swap(basis_, next_);
    return true;
  }

  Dense& dense_;
  std::size_t dim_, width_;
  Dense::Owned matrix_, basis_, next_, small_;
};

/// How fast T_k grows with k at an eigenvalue: as exp(k growth).
double growth(double value, double edge) {
  return std::acosh(std::max(1.0, 2 * value / edge - 1));
}

/// The most degrees that leave the basis well enough conditioned.
int most_degrees(double largest, double edge) {
  return std::clamp(static_cast<int>(std::log(kMostStretch) / std::max(growth(largest, edge), 1e-3)), 2, 24);
}

}  // namespace

std::optional<Eigenpairs> leading_eigenpairs(Dense& dense, const Matrix64& symmetric, std::size_t count) {
  const std::size_t dim = symmetric.rows();
  const std::size_t width = std::min(dim, count + std::max<std::size_t>(64, count / 2));
  Subspace subspace(dense, symmetric, width);
  double edge = as_eigen(symmetric.view()).trace() / static_cast<double>(dim);
  double largest = as_eigen(symmetric.view()).cwiseAbs().rowwise().sum().maxCoeff();
  double last_wanted = 0;
  if (!(edge > 0) || std::isinf(largest)) return {};
  for (int i = 0; i < kEstimates; ++i) {
    if (!subspace.filter(edge, most_degrees(largest, edge))) return {};
    std::optional<Matrix64> projected = subspace.projected();
    if (!projected) return {};
    const std::vector<double> values = eigenvalues(std::move(*projected));
    edge = values.front();  // no more than the true one
    if (!(edge > 0)) return {};
    largest = values.back();
    last_wanted = values[width - count];
  }
  double degrees = std::log(kWanted) / growth(last_wanted, edge);
  for (int attempt = 0; attempt < kAttempts && degrees <= kMostDegrees; ++attempt) {
    const int step = most_degrees(largest, edge);
    for (double done = 0; done < degrees; done += step) {
      if (!subspace.filter(edge, step)) return {};
    }
    auto found = subspace.leading(count);
    if (!found) return {};
    if (found->distance <= kAccuracy * largest) return std::move(found->pairs);
    edge = found->least;  // which is nearer to the truth now
    degrees = std::log(kSpare * found->distance / (kAccuracy * largest)) / growth(found->pairs.values.front(), edge);
  }
  return {};
}

}  // namespace kedge
