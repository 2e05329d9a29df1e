// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "anchors/param/param.h"
#include "io/byte_source.h"

#include <kedge/matrix.h>
#include <kedge/param.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kedge {

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
