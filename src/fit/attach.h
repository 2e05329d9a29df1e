// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "map/attach_by.h"

#include <kedge/fit.h>

namespace kedge {

/// By space, which of its support rows embed the same input as those of other spaces.
using RightRows = std::vector<std::vector<bool>>;

/// What a fit makes of its sources.
struct Learned {
  LearnedAnchors anchors;
  std::vector<Attachment> spaces;
  RightRows right = {};  ///< empty if all are
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

  /// The space of the statistics; `support` are its rows, in support order. If anchors have targets, with a decoder.
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

/// From some of the support rows: those at `places`, in their order.
[[nodiscard]] Attachment attach_some(const Recipe& made, const LearnedAnchors& anchors,
                                     std::span<const std::size_t> places, const Matrix64& support,
                                     const Statistics& statistics, const AttachSettings& settings,
                                     const Progress& progress);

/// Joins two spaces directly, the usual way: the first is brought onto the second, and the shared space is the second's
/// own coordinates (for cca, those in which both correlate). It makes targets, mixture and both maps, so that all that
/// can be done with anchors can be done with the baseline.
[[nodiscard]] Learned fit_adapter(std::span<const Statistics> statistics, std::span<const Matrix64> supports,
                                  const Recipe& made, const FitOptions& options, const Progress& progress);

/// Throws Error(Code::bad_argument) unless there are two spaces and the similarity is wip, or inner for the raw rows.
void require_adapter(std::size_t spaces, const FitOptions& options);

}  // namespace kedge
