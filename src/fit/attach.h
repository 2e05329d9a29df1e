// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "map/kernel_attach.h"
#include "map/ridge_attach.h"
#include "space/statistics.h"

#include <kedge/fit.h>

#include <optional>
#include <vector>

namespace kedge {

/// What a fit makes of its sources.
struct Learned {
  LearnedAnchors anchors;
  std::vector<Attachment> spaces;
};

/// Anchors of these targets Z, support x anchors: their mixture is the signed Z^T / K.
[[nodiscard]] LearnedAnchors anchors_of_targets(Matrix targets);

/// How a space is attached.
struct AttachSettings {
  AttachBy by = AttachBy::mixture;
  std::optional<double> ridge = {};
  KernelOptions kernel = {};
};

/// Throws Error(Code::bad_argument) for a strength or a kernel that the way to attach has no use for.
[[nodiscard]] AttachSettings settings_of(const Bundle& bundle, const AttachOptions& options);

/// Attaches spaces to anchors that stay as they are. Safe to use from several threads.
class Attacher {
 public:
  /// Both must outlive it.
  Attacher(const Recipe& made, const LearnedAnchors& anchors);

  /// The space is that of the statistics; `support` are its rows, in support order. If the anchors have targets, there
  /// is also a decoder.
  [[nodiscard]] Attachment attach(const Matrix64& support, const Statistics& statistics, const AttachSettings& settings,
                                  const Progress& progress = {}) const;
  /// By ridge, with the rows prepared.
  [[nodiscard]] Attachment attach_by_ridge(const RidgeRows& rows, const Statistics& statistics,
                                           const AttachSettings& settings) const;

 private:
  [[nodiscard]] Attachment regress(const RidgeSupport& rows, const Matrix64& support, const Statistics& statistics,
                                   const AttachSettings& settings, const Progress& progress) const;
  [[nodiscard]] RelativeMap mix(const Matrix64& support, const Statistics& statistics) const;
  void require_way(const Statistics& statistics, AttachBy by) const;

  const Recipe& made_;
  const LearnedAnchors& anchors_;
  std::optional<RidgeTargets> targets_;
};

}  // namespace kedge
