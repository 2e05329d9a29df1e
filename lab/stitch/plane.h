// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"

#include <kedge/matrix.h>

#include <array>
#include <vector>

namespace kedge {

/// The two directions in which some rows vary most.
class Plane {
 public:
  explicit Plane(const Matrix& rows);

  /// Coordinates of rows of the same space.
  [[nodiscard]] std::vector<std::array<double, 2>> points(const Matrix& rows) const;

 private:
  Eigen::RowVectorXd mean_;
  EigenRows<double> axes_;
};

/// The mean cosine of the same row in two spaces, over all pairs of spaces. Each space is centred first: cosines and
/// distances have one sign, and would agree whatever they say.
[[nodiscard]] double mean_centred_cosine(const std::vector<Matrix>& features);

}  // namespace kedge
