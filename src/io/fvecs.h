// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/byte_source.h"

#include <cstddef>
#include <span>
#include <string>

namespace kedge::io {

/// An `.fvecs` file: every row is its length as int32, then that many float32, all little endian.
struct FvecsInfo {
  std::size_t rows = 0, cols = 0;
  [[nodiscard]] std::size_t row_bytes() const { return 4 * (cols + 1); }
};

/// Throws Error(Code::bad_file) unless the file is a whole number of rows of the first row's length.
[[nodiscard]] FvecsInfo parse_fvecs(const ByteSource& file);

/// Where the values are among the bytes of a row. Throws Error(Code::bad_file) if it claims another length than the
/// first row; that is checked row by row, so that opening a large file does not read all of it.
[[nodiscard]] const std::byte* fvecs_values(std::span<const std::byte> bytes, const FvecsInfo& info, std::size_t row,
                                            const std::string& label);

}  // namespace kedge::io
