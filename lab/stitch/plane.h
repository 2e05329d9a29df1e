// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"

#include <kedge/matrix.h>

#include <array>
#include <vector>

namespace kedge {

/// The two directions that some rows vary in most.
class Plane {
 public:
  explicit Plane(const Matrix& rows);

  /// Where rows of the same space lie in it.
  [[nodiscard]] std::vector<std::array<double, 2>> points(const Matrix& rows) const;

 private:
  Eigen::RowVectorXd mean_;
  EigenRows<double> axes_;
};

/// The mean cosine of the same row in two spaces, over all pairs of them. Each space's mean is taken off first: cosines
/// and distances are all of one sign, and would agree whatever they say.
[[nodiscard]] double mean_centred_cosine(const std::vector<Matrix>& features);

}  // namespace kedge
