// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/covariance.h"

#include <kedge/similarity.h>
#include <kedge/whitening.h>

namespace kedge {

/// Partial whitening, of 0 to 1: it restrains directions of little variance, which helps if support rows are few.
constexpr double kHalf = 0.5;

/// A matrix B that whitens, B Sigma B^T = I. It differs from L by a rotation, which changes neither a consensus nor a
/// ridge, and a Cholesky decomposition finds it much faster than eigenvectors could.
class WhiteningBasis {
 public:
  /// From the shrunk covariance: by Cholesky, or by eigenvectors if that is nearly singular or `whitened` is below 1.
  /// Throws what make_whitening throws.
  WhiteningBasis(const Moments& moments, const WhiteningOptions& options, Device device = Device::cpu,
                 double whitened = 1);
  /// From eigenvectors that are known.
  explicit WhiteningBasis(const Whitening& whitening, double whitened = 1);

  [[nodiscard]] const std::vector<double>& mean() const { return mean_; }
  [[nodiscard]] std::size_t dim() const { return mean_.size(); }
  [[nodiscard]] const std::shared_ptr<const ChangeOfBasis>& whitener() const { return whitener_; }

 private:
  std::vector<double> mean_;
  std::shared_ptr<const ChangeOfBasis> whitener_;
};

/// The moments of one space, and how its covariance is whitened.
class Statistics {
 public:
  /// A rule other than fixed replaces the shrinkage. `of_support`: the moments are of the support rows alone.
  Statistics(Moments moments, WhiteningOptions options, ShrinkageRule rule, Device device, bool of_support = false);

  [[nodiscard]] const Moments& moments() const { return moments_; }
  [[nodiscard]] std::span<const double> mean() const { return moments_.mean(); }
  [[nodiscard]] const WhiteningOptions& options() const { return options_; }
  /// Where the whitening is found.
  [[nodiscard]] Device device() const { return device_; }
  [[nodiscard]] bool of_support() const { return of_support_; }
  [[nodiscard]] const std::string& space() const { return moments_.parts().front().space; }
  [[nodiscard]] std::size_t dim() const { return moments_.dim(); }

  /// The same, with the whitening found now: for those who ask for it more than once.
  [[nodiscard]] Statistics whitened() const;
  [[nodiscard]] Whitening whitening() const;
  /// All that a ridge needs of a whitening, found much faster; of Sigma_lambda^(-whitened / 2).
  [[nodiscard]] WhiteningBasis basis(double whitened = 1) const;

 private:
  Moments moments_;
  WhiteningOptions options_;
  Device device_;
  bool of_support_;
  std::shared_ptr<const Whitening> whitening_;  ///< once found
};

/// Throws Error(Code::bad_file) if epsilon would outweigh all that varies in the space.
void require_whitenable(const Statistics& statistics);

/// The coordinates of an adapter: rows are centred, and whitened for wip or scaled to a common spread for inner.
[[nodiscard]] Whitening coordinates_of(Similarity similarity, const Statistics& statistics);

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
