// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/whitening_basis.h"

#include <kedge/device.h>
#include <kedge/similarity.h>
#include <kedge/whitening.h>

#include <memory>
#include <span>
#include <string>

namespace kedge {

/// The moments of one space, and how its covariance is whitened.
class Statistics {
 public:
  /// A rule other than fixed replaces the shrinkage. `of_support`: the moments are of the support rows alone.
  Statistics(Moments moments, WhiteningOptions options, ShrinkageRule rule, Device device, bool of_support = false);

  [[nodiscard]] const Moments& moments() const { return moments_; }
  [[nodiscard]] std::span<const double> mean() const { return moments_.mean(); }
  [[nodiscard]] const WhiteningOptions& options() const { return options_; }
  /// Finds the whitening.
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

/// The coordinates of an adapter: rows are centred and whitened for wip, centred and scaled to a common spread for
/// inner.
[[nodiscard]] Whitening coordinates_of(Similarity similarity, const Statistics& statistics);

}  // namespace kedge
