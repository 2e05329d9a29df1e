// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "map/ridge_attach.h"

#include <kedge/bundle.h>
#include <kedge/space.h>

#include <optional>

namespace kedge {

/// Mean and covariance of one space, and how the latter is whitened.
struct Statistics {
  Moments moments;
  WhiteningOptions options;
  std::optional<Whitening> whitening;  ///< where it is known already
  Device device = Device::cpu;         ///< where it is found otherwise
};

/// Chooses the space's shrinkage by the bundle's rule.
[[nodiscard]] Statistics statistics_of(const Bundle& bundle, const Space& space, Moments moments, Device device);
/// From the space's rows; its whitening too where asked for.
[[nodiscard]] Statistics statistics_of(const Space& space, const WhiteningOptions& options, ShrinkageRule rule,
                                       bool whitened, Device device, const Progress& progress);

/// Throws Error(Code::bad_file) where epsilon would outweigh all that varies in the space.
void require_whitenable(const Space& space, const Statistics& statistics);

/// The whitening, found now where it is not known yet.
[[nodiscard]] Whitening whitening_of(const Statistics& statistics);

/// Where ridge works: rows are centred and whitened for wip, centred and scaled to a common spread for inner.
[[nodiscard]] Whitening coordinates_of(Similarity similarity, const Statistics& statistics);

/// Keeps these targets Z, support x anchors, and their signed mixture Z^T / K.
void set_targets(Bundle& bundle, Matrix targets);

/// Attaches spaces to a bundle whose mixture and targets stay as they are. Safe to use from several threads.
class Attacher {
 public:
  /// The bundle must outlive it.
  explicit Attacher(const Bundle& bundle);

  /// `support` are the space's support rows, in support order. Where the bundle has targets, there is also a decoder.
  [[nodiscard]] Attachment attach(const Space& space, Matrix64 support, const Statistics& statistics, AttachBy by,
                                  std::optional<double> ridge) const;

 private:
  const Bundle& bundle_;
  std::optional<RidgeTargets> targets_;
};

}  // namespace kedge
