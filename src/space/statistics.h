// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/whitening_basis.h"

#include <kedge/device.h>
#include <kedge/similarity.h>
#include <kedge/whitening.h>

#include <memory>
#include <optional>
#include <string>

namespace kedge {

/// The moments of one space, and how its covariance is whitened.
struct Statistics {
  Moments moments;
  WhiteningOptions options;
  std::optional<Whitening> whitening;                ///< if it is known already
  Device device = Device::cpu;                       ///< finds what is not known yet
  bool of_support = false;                           ///< of the support rows alone, and not of all rows
  std::shared_ptr<const WhiteningBasis> basis = {};  ///< if it is known already

  [[nodiscard]] const std::string& space() const { return moments.parts().front().space; }
  [[nodiscard]] std::size_t dim() const { return moments.dim(); }
};

/// A rule other than fixed chooses the shrinkage.
[[nodiscard]] Statistics statistics_of(Moments moments, WhiteningOptions options, ShrinkageRule rule, Device device);

/// Throws Error(Code::bad_file) if epsilon would outweigh all that varies in the space.
void require_whitenable(const Statistics& statistics);

/// The whitening, found now if it is not known yet.
[[nodiscard]] Whitening whitening_of(const Statistics& statistics);

/// All that a ridge needs of a whitening; found much faster.
[[nodiscard]] std::shared_ptr<const WhiteningBasis> basis_of(const Statistics& statistics);

/// The same for rows that are only half-whitened, by Sigma_lambda^(-1/4).
[[nodiscard]] std::shared_ptr<const WhiteningBasis> half_basis_of(const Statistics& statistics);

/// The coordinates of an adapter: rows are centred and whitened for wip, centred and scaled to a common spread for
/// inner.
[[nodiscard]] Whitening coordinates_of(Similarity similarity, const Statistics& statistics);

}  // namespace kedge
