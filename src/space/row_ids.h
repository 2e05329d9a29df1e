// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/draw.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace kedge {

/// Throws Error(Code::bad_argument) unless there is an id for each of the rows where the draw needs them, and none
/// where it does not.
void require_ids(const SupportDraw& draw, std::span<const std::int64_t> ids, std::size_t rows);

}  // namespace kedge
