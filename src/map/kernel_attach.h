// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "map/ridge_attach.h"
#include "regress/kernel_ridge.h"
#include "space/statistics.h"

#include <kedge/attachment.h>
#include <kedge/progress.h>

#include <utility>

namespace kedge {

/// The map that regresses the targets through a kernel with the support rows. `yardstick` is that of a KernelTask.
[[nodiscard]] Attachment attach_by_kernel(const RidgeTargets& targets, MatrixView<const double> support,
                                          Similarity similarity, const Statistics& statistics,
                                          const KernelOptions& options, const Progress& progress,
                                          MatrixView<const double> yardstick = {});

/// A map through a kernel from one space's embeddings to another's, as they are, and how well it does.
[[nodiscard]] std::pair<RelativeMap, KernelFit> translate_by_kernel(const Statistics& from,
                                                                    MatrixView<const double> from_support,
                                                                    MatrixView<const double> to_support,
                                                                    Similarity similarity, const KernelOptions& options,
                                                                    const Progress& progress);

}  // namespace kedge
