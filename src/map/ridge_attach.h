// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"
#include "map/statistics.h"
#include "solve/ridge.h"

#include <kedge/attachment.h>

#include <optional>
#include <string>

namespace kedge {

constexpr double kMostRidge = 1e12;  ///< a map far smaller than float32 holds anyway

/// The targets of a bundle in float64, with what every ridge to and from them shares.
class RidgeTargets {
 public:
  /// support x anchors.
  explicit RidgeTargets(const Matrix& targets);

  /// support x the anchors up to the last that is not always 0, which a consensus puts at the end.
  [[nodiscard]] const Matrix64& values() const { return values_; }
  /// All of them.
  [[nodiscard]] std::size_t anchors() const { return anchors_; }
  [[nodiscard]] const Eigen::RowVectorXd& means() const { return means_; }
  [[nodiscard]] const Spread& spread() const { return spread_; }
  /// Of the centred targets, for the way back.
  [[nodiscard]] const std::shared_ptr<const RidgeBasis>& basis() const { return basis_; }

 private:
  std::size_t anchors_;
  Matrix64 values_;
  Eigen::RowVectorXd means_;
  Spread spread_;
  std::shared_ptr<const RidgeBasis> basis_;
};

/// One space's support rows, as ridge sees them from both ends.
class RidgeSupport {
 public:
  /// `mean` is that of the space's statistics; `support` are its rows, in support order. Targets must outlive it.
  RidgeSupport(const RidgeTargets& targets, Matrix64 support, std::span<const double> mean);

  /// The map that regresses the targets of the space that the statistics are of. Without a strength, generalised
  /// cross-validation chooses it, and for wip the coordinates its penalty is measured in: whitened, or half-whitened
  /// where those are clearly better. Other similarities have them as they are. The mean of all rows has targets of 0;
  /// where the statistics are of the support, it is that of the support, which has the mean of the targets.
  [[nodiscard]] Attachment map(Similarity similarity, const Statistics& statistics,
                               std::optional<double> strength) const;
  /// The way back, from the targets to the support rows.
  [[nodiscard]] Decoder decoder(const std::string& space) const;

 private:
  const RidgeTargets& targets_;
  Matrix64 rows_;  ///< centred on the mean
  Eigen::RowVectorXd mean_;
  Matrix64 cross_;  ///< rows^T targets / support
};

}  // namespace kedge
