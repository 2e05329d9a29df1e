// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"
#include "regress/kernel_ridge.h"
#include "regress/ridge.h"

#include <kedge/attachment.h>
#include <kedge/progress.h>

#include <utility>

namespace kedge {

constexpr double kMostRidge = 1e12;  ///< a map far smaller than float32 holds anyway

/// The targets of a bundle in float64, with what every ridge to and from them shares.
class RidgeTargets {
 public:
  /// support x anchors.
  explicit RidgeTargets(const Matrix& targets);

  /// support x the anchors but for those at the end that are always 0, as in a consensus of earlier versions.
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

/// One space's support rows, less the mean of its statistics, on their device: all but targets that ridge needs.
class RidgeRows {
 public:
  /// The coordinates that a penalty may be measured in.
  struct Candidate {
    double whitening;
    std::shared_ptr<const RidgeBasis> basis;
  };

  /// `support` are the rows of the space that the statistics are of, in support order.
  RidgeRows(const Matrix64& support, const Statistics& statistics);

  /// Decomposes what a map needs: for wip the rows whitened, and half-whitened if that `chooses` may be better, or for
  /// a map that `translates` as they are. Other similarities have them as they are. `basis` is that of the statistics,
  /// if it is known.
  void prepare(Similarity similarity, const Statistics& statistics, bool chooses,
               const std::optional<WhiteningBasis>& basis = {}, bool translates = false);

  /// The map for wip of anchors mixed by `weights`, support x anchors; `rr` becomes what it makes of the rows.
  [[nodiscard]] RelativeMap mix(MatrixView<const double> weights, const Statistics& statistics, Matrix64& rr) const;

  [[nodiscard]] const CentredRows& centred() const { return *rows_; }
  [[nodiscard]] std::span<const Candidate> candidates() const { return candidates_; }
  [[nodiscard]] const Eigen::RowVectorXd& mean() const { return mean_; }
  /// Of the centred rows.
  [[nodiscard]] std::span<const double> means() const { return means_; }
  [[nodiscard]] Spread spread_around_means() const;
  [[nodiscard]] const RepeatedRows& repeated() const { return repeated_; }

 private:
  Eigen::RowVectorXd mean_;
  std::unique_ptr<const CentredRows> rows_;
  std::vector<double> means_, mean_squares_;
  RepeatedRows repeated_;
  std::vector<Candidate> candidates_;
};

/// One space's support rows, as ridge sees them from both ends. Targets and rows must outlive it.
class RidgeSupport {
 public:
  RidgeSupport(const RidgeTargets& targets, const RidgeRows& rows);

  /// The map that regresses the targets; the rows must be prepared. Without a strength, generalised cross-validation
  /// chooses it, and among the candidates the first, but for one that is clearly better. The mean of all rows has
  /// targets of 0; if the statistics are of the support, its mean has the mean of the targets.
  [[nodiscard]] Attachment map(Similarity similarity, const Statistics& statistics,
                               std::optional<double> strength) const;
  /// The way back, from the targets to the support rows.
  [[nodiscard]] Decoder decoder(const std::string& space) const;

 private:
  const RidgeTargets& targets_;
  const RidgeRows& rows_;
  Matrix64 cross_;  ///< rows^T targets / support
  std::size_t distinct_;
};

/// The map that regresses the targets through a kernel with the support rows.
[[nodiscard]] Attachment attach_by_kernel(const RidgeTargets& targets, MatrixView<const double> support,
                                          Similarity similarity, const Statistics& statistics,
                                          const KernelOptions& options, const Progress& progress);

/// A map through a kernel from one space's embeddings to another's, as they are or in the coordinates `onto`, and how
/// well it does; `restores` the variance that a regression loses.
[[nodiscard]] std::pair<RelativeMap, KernelFit> translate_by_kernel(
    const Statistics& from, MatrixView<const double> from_support, MatrixView<const double> to_support,
    Similarity similarity, const KernelOptions& options, const Progress& progress, const Whitening* onto = nullptr,
    bool restores = true);

}  // namespace kedge
