// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "map/kernel_attach.h"
#include "map/ridge_attach.h"
#include "space/statistics.h"

#include <kedge/bundle.h>

#include <optional>

namespace kedge {

/// Keeps these targets Z, support x anchors, and their signed mixture Z^T / K.
void set_targets(Bundle& bundle, Matrix targets);

/// How a space is attached.
struct AttachSettings {
  AttachBy by = AttachBy::mixture;
  std::optional<double> ridge = {};
  KernelOptions kernel = {};
};

/// Attaches spaces to a bundle whose mixture and targets stay as they are. Safe to use from several threads.
class Attacher {
 public:
  /// The bundle must outlive it.
  explicit Attacher(const Bundle& bundle);

  /// The space is that of the statistics; `support` are its rows, in support order. Where the bundle has targets, there
  /// is also a decoder.
  [[nodiscard]] Attachment attach(const Matrix64& support, const Statistics& statistics, const AttachSettings& settings,
                                  const Progress& progress = {}) const;
  /// By ridge, with the rows prepared.
  [[nodiscard]] Attachment attach_by_ridge(const RidgeRows& rows, const Statistics& statistics,
                                           const AttachSettings& settings) const;

 private:
  [[nodiscard]] Attachment regress(const RidgeSupport& rows, const Matrix64& support, const Statistics& statistics,
                                   const AttachSettings& settings, const Progress& progress) const;
  void require_way(const Statistics& statistics, AttachBy by) const;

  const Bundle& bundle_;
  std::optional<RidgeTargets> targets_;
};

}  // namespace kedge
