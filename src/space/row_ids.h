// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/draw.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace kedge {

/// Throws Error(Code::bad_argument) unless there are as many ids as rows, or none if the draw needs none.
void require_ids(const SupportDraw& draw, std::span<const std::int64_t> ids, std::size_t rows);

}  // namespace kedge
