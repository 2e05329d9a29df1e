// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/param.h"

#include "anchors/param/objective.h"
#include "anchors/param/trainer.h"
#include "base/arithmetic.h"
#include "base/wording.h"

#include <algorithm>
#include <filesystem>
#include <limits>

namespace kedge {
namespace {

std::vector<std::uint32_t> support_rows(const ParamTask& task) {
  const Space& space = task.spaces.front();
  if (space.rows() > std::numeric_limits<std::uint32_t>::max()) {
    refuse("{} rows are more than PARAM can learn from at once; choose a range", space.rows());
  }
  const std::vector<std::size_t> rows = space.find(task.support_ids);
  return {rows.begin(), rows.end()};
}

/// About how many floats a backend holds while it learns: rows, support, five matrices like the mixture, and buffers.
std::size_t floats_needed(const ParamTask& task, const Param& options) {
  const std::size_t spaces = task.spaces.size(), rows = task.spaces.front().rows();
  const std::size_t support = task.support_ids.size(), m = task.anchors, n = std::min(options.batch, rows);
  std::size_t width = 0;
  for (const Space& space : task.spaces) width += space.dim();
  const std::size_t own_support = support == rows ? 0 : support;
  const std::size_t chunk = options.coverage_rows == CoverageRows::all ? std::min(options.coverage_chunk, rows) : 0;
  const std::size_t packed = support * width + m * support / 2;  // once more, turned or in half the bits
  return (rows + own_support + n + 4 * m) * width + packed + 5 * m * support + spaces * m * (n + m) +
         Alignment::floats_needed(spaces, n, m) + chunk * m;
}

/// Names the file if its checkpoint does not fit.
void restore(Trainer& trainer, const Checkpoint& checkpoint, const std::string& path) {
  try {
    trainer.restore(checkpoint);
  } catch (const Error& problem) {
    throw Error(problem.code(), fmt::format("{}: {}; leave out {} to start from scratch", path, problem.text(),
                                            option_words("resume")));
  }
}

/// Runs the trainer, writing checkpoints as it goes and when it stops.
void run(Trainer& trainer, const CheckpointOptions& checkpoints, const std::string& purpose, const Progress& progress) {
  const bool keep = !checkpoints.path.empty();
  std::size_t saved = trainer.epoch();
  const auto after_step = [&](const ProgressReport& report) {
    if (keep && checkpoints.every > 0 && trainer.epoch() >= saved + checkpoints.every) {
      save_checkpoint(trainer.checkpoint(purpose), checkpoints.path);
      saved = trainer.epoch();
    }
    if (progress) progress(report);
  };
  try {
    trainer.run(after_step);
  } catch (const LossNotFinite& problem) {
    if (!keep || !std::filesystem::exists(checkpoints.path)) throw;
    throw Error(problem.code(), fmt::format("{}; the last good checkpoint is '{}'", problem.text(), checkpoints.path));
  } catch (...) {
    if (keep) save_checkpoint(trainer.checkpoint(purpose), checkpoints.path);
    throw;
  }
}

}  // namespace

ParamResult learn_mixture(Backend& backend, const ParamTask& task, std::vector<Whitening> whitenings,
                          const Param& options, const Progress& progress) {
  require_valid(options);
  const CheckpointOptions& checkpoints = options.checkpoint;
  const std::vector<std::uint32_t> support = support_rows(task);
  const std::string purpose = purpose_of(task, options, backend);
  const bool resume = checkpoints.resume && std::filesystem::exists(checkpoints.path);
  Checkpoint found;
  if (resume) {
    found = load_checkpoint(checkpoints.path, purpose);
  } else if (!checkpoints.path.empty()) {
    require_no_other_file(checkpoints.path);
  }

  backend.require_memory(
      floats_needed(task, options), "learning anchors",
      fmt::format("give fewer {}, or lower {}, {}, {} or {}", option_words("rows"), option_words("support"),
                  option_words("anchors"), option_words("batch"), option_words("coverage-chunk")));
  const WhitenedSpaces spaces = whiten_spaces(backend, task.spaces, whitenings, progress);
  whitenings = {};  // training needs the memory more
  Trainer trainer(backend, spaces, support, task.anchors, options, task.seed);
  if (resume) restore(trainer, found, checkpoints.path);
  run(trainer, checkpoints, purpose, progress);
  ParamResult result{trainer.mixture(), trainer.history()};
  if (!all_finite(std::span<const float>(result.mixture.cells()))) {
    fail("the last step of the training produced values beyond float32; try a lower learning rate");
  }
  return result;
}

}  // namespace kedge
