// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>
#include <kedge/progress.h>
#include <kedge/space.h>

#include <vector>

namespace kedge {

/// Mean and covariance of a set of rows, in float64.
struct Moments {
  std::size_t rows = 0;
  std::vector<double> mean;
  Matrix64 covariance;  ///< divided by rows
};

/// Adds up rows; sums of parts can be merged, so rows may be shared out and brought together in any grouping.
class MomentSums {
 public:
  explicit MomentSums(std::size_t dim);
  /// Overwrites `block`.
  void add(MatrixView<double> block);
  void merge(const MomentSums& other);
  /// Throws Error(Code::bad_argument) if nothing was added.
  [[nodiscard]] Moments moments() const;

 private:
  std::size_t rows_ = 0;
  std::vector<double> mean_;
  Matrix64 scatter_;  ///< lower triangle of the sum of centred products
};

/// Reads a space once, block by block. Throws Error(Code::bad_file) if all its rows are the same.
[[nodiscard]] Moments compute_moments(const Space& space, const Progress& progress = {});

struct WhiteningOptions {
  double shrinkage = 0.15;  ///< how far the covariance is pulled towards a multiple of the identity, 0 to 1
  double epsilon = 5e-8;    ///< added to its diagonal
};

/// Mean mu and L = Sigma_lambda^(-1/2) of one space: (x - mu) L has a covariance near the identity.
struct Whitening {
  std::vector<double> mean;
  Matrix64 covariance;  ///< shrunk
  Matrix64 whitener;    ///< L, symmetric
};

/// Throws Error(Code::bad_argument) for options out of range, and where the covariance is singular because both are 0.
[[nodiscard]] Whitening make_whitening(const Moments& moments, const WhiteningOptions& options);

/// (rows - mu) L, in place.
void whiten(const Whitening& whitening, MatrixView<double> rows);

}  // namespace kedge
