// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "io/byte_source.h"

#include <kedge/param.h>
#include <kedge/progress.h>
#include <kedge/space.h>
#include <kedge/whitening.h>

namespace kedge {

/// What PARAM learns from.
struct ParamTask {
  std::span<const Space> spaces;
  std::span<const std::int64_t> support_ids;  ///< row numbers of the files
  std::size_t anchors = 0;
  std::uint64_t seed = 0;
  WhiteningOptions whitening;  ///< what was asked for; a checkpoint remembers it
  ShrinkageRule shrinkage_rule = ShrinkageRule::fixed;
};

struct ParamResult {
  Matrix mixture;
  std::vector<Losses> history;  ///< means by epoch
};

/// Learns the mixture in whitened coordinates; `whitenings` has one for each space. If an exception out of `progress`
/// stops it, it writes a checkpoint of the last step before the exception goes on; if a loss is not finite, the last
/// checkpoint stays as it is.
[[nodiscard]] ParamResult learn_mixture(Backend& backend, const ParamTask& task, std::vector<Whitening> whitenings,
                                        const Param& options, const Progress& progress);

/// Throws Error(Code::bad_argument) that names the option, what it was and what it may be.
void require_valid(const Param& options);

/// All options as JSON text, and back. Throws Error(Code::bad_file) for other text.
[[nodiscard]] std::string to_json(const Param& options);
[[nodiscard]] Param param_options_from_json(const std::string& text);

/// A history of losses as JSON text, [[total, symnce, coverage, orthogonality, length], ...], and back, bit by bit.
[[nodiscard]] std::string history_to_json(const std::vector<Losses>& history);
/// Throws Error(Code::bad_file) for other text.
[[nodiscard]] std::vector<Losses> history_from_json(const std::string& text);

/// Everything that must be the same for a checkpoint to be continued; more epochs may follow.
[[nodiscard]] std::string purpose_of(const ParamTask& task, const Param& options, const Backend& backend);

/// All that training needs to go on as if it had never stopped.
struct Checkpoint {
  std::string purpose;              ///< of the training; only one with the same purpose is continued
  std::size_t epoch = 0, step = 0;  ///< the next step to do, within its epoch
  std::uint64_t steps = 0;          ///< done in all
  Losses sums;                      ///< over the steps of the epoch so far
  std::vector<Losses> history;      ///< means of the epochs before
  Matrix logits, first_moment, second_moment;
};

/// Replaces the file at once or not at all.
void save_checkpoint(const Checkpoint& checkpoint, const std::string& path);
/// Throws Error(Code::bad_argument) if a file is there that is no checkpoint, which one would replace.
void require_no_other_file(const std::string& path);
/// Throws Error(Code::bad_file) for a file that is no checkpoint, Error(Code::bad_argument) for another purpose.
[[nodiscard]] Checkpoint load_checkpoint(const std::string& path, const std::string& purpose);
/// The same for the bytes of a file.
[[nodiscard]] Checkpoint read_checkpoint(const io::ByteSource& file, const std::string& purpose);

}  // namespace kedge
