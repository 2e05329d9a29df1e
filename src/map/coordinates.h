// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/statistics.h"

#include <optional>

namespace kedge {

/// Coordinates in which plain distance agrees with the similarity.
class Coordinates {
 public:
  Coordinates(Similarity similarity, const Statistics& statistics);
  /// In place.
  void apply(MatrixView<double> rows) const;

 private:
  std::optional<Whitening> whitening_;  ///< none for angles, where rows get unit length
};

}  // namespace kedge
