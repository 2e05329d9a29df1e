// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/lab/head.h>

#include <optional>

namespace kedge {

/// Logistic regression as a yardstick for an mlp trained on the same rows. It stops when answers hardly change, while a
/// linear head is solved to the end. None if the features leave the solution open.
[[nodiscard]] std::optional<Classifier> train_yardstick(MatrixView<const float> features,
                                                        std::span<const std::int64_t> labels,
                                                        const HeadOptions& options, const Progress& progress);

}  // namespace kedge
