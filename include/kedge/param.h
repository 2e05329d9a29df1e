// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kedge {

/// Which rows the coverage loss is taken over in each step.
enum class CoverageRows { batch, all };

[[nodiscard]] std::string_view to_string(CoverageRows rows);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] CoverageRows parse_coverage_rows(std::string_view name);
[[nodiscard]] std::vector<std::string_view> coverage_rows_names();

/// Where training keeps its state, so that it can go on after it was stopped.
struct CheckpointOptions {
  std::string path;        ///< empty: no checkpoints
  std::size_t every = 10;  ///< epochs; one is also written when training stops early
  bool resume = false;     ///< start from the checkpoint if it is there; ends in the same bits as training in one go

  friend bool operator==(const CheckpointOptions&, const CheckpointOptions&) = default;
};

/// PARAM, the paper's method: convex mixtures learned by gradient. These defaults are the paper's, and the only ones.
struct Param {
  std::size_t epochs = 95;
  std::size_t batch = 1024;  ///< parallel rows per step; all rows if there are fewer. The rest of an epoch is left out
  double learning_rate = 0.03;  ///< of Adam
  double weight_decay = 0;      ///< decoupled, as in AdamW
  double beta1 = 0.9, beta2 = 0.999, adam_epsilon = 1e-8;
  double temperature = 2.9;  ///< of the softmax that makes the mixture
  double weight_symnce = 0.70, tau_symnce = 0.10;
  double weight_coverage = 11.3, tau_coverage = 2.7;
  double weight_orthogonality = 0.27;
  double weight_length = 1.2;
  CoverageRows coverage_rows = CoverageRows::batch;
  std::size_t coverage_chunk = 16384;    ///< rows at a time if coverage is over all
  std::optional<std::size_t> keep = {};  ///< largest weights kept of each anchor; default: all
  CheckpointOptions checkpoint = {};

  friend bool operator==(const Param&, const Param&) = default;
};

/// The losses of one step, or their mean over an epoch. The parts are not weighted; the total is.
struct Losses {
  double total = 0, symnce = 0, coverage = 0, orthogonality = 0, length = 0;
};

}  // namespace kedge
