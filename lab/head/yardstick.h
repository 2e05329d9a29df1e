// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/lab/head.h>

#include <optional>

namespace kedge {

/// Logistic regression to hold an mlp against that was trained on the same rows: not solved to the end, as a head of
/// the kind linear is, but as far as answers still change. None if the features leave the solution open.
[[nodiscard]] std::optional<Classifier> train_yardstick(MatrixView<const float> features,
                                                        std::span<const std::int64_t> labels,
                                                        const HeadOptions& options, const Progress& progress);

}  // namespace kedge
