// SPDX-License-Identifier: Apache-2.0
#include "map/coordinates.h"

#include "base/eigen.h"

namespace kedge {

Coordinates::Coordinates(Similarity similarity, const Statistics& statistics) {
  const bool angles = similarity == Similarity::cosine || similarity == Similarity::angular;
  if (!angles) whitening_ = coordinates_of(similarity, statistics);
}

void Coordinates::apply(MatrixView<double> rows) const {
  if (whitening_) return whiten(*whitening_, rows);
  auto cells = as_eigen(rows);
  for (Eigen::Index r = 0; r < cells.rows(); ++r) cells.row(r).normalize();
}

}  // namespace kedge
