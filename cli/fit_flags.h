// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "console.h"

#include <string>

namespace kedge::cli {

/// What `fit`, `stitch` and `sweep` can all be told about a fit, as it stands on the command line.
struct FitFlags {
  FitOptions fit;
  std::string support_ids, attach_by, ridge = "auto";
  std::string device{to_string(fit.device)}, precision{to_string(fit.precision)};
  std::string support_select{to_string(fit.support_select)};
  std::string coverage_rows{to_string(fit.param.coverage_rows)};

  static constexpr const char* kLearning = "Learning (--method param)";
  static constexpr const char* kConsensus = "Consensus (--method consensus)";

  /// `support` is the option that support ids exclude. `learning` and `consensus` head their groups of options.
  void add_to(CLI::App& command, CLI::Option* support, const std::string& learning = kLearning,
              const std::string& consensus = kConsensus);
  /// The options with all names parsed and the support ids read.
  [[nodiscard]] FitOptions parsed() const;

 private:
  void add_learning(CLI::App& command, const std::string& group);
  void add_consensus(CLI::App& command, const std::string& group);
};

/// The help of --support.
[[nodiscard]] std::string support_help();

}  // namespace kedge::cli
