// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/array.h"
#include "io/byte_source.h"

#include <cstddef>
#include <span>
#include <string>

namespace kedge::io {

/// Reads the header of an `.npy` file, versions 1 to 3. Trusts nothing: throws Error(Code::bad_file) unless the file
/// holds exactly the bytes the header announces.
[[nodiscard]] ArrayInfo parse_npy(const ByteSource& file);

/// The header of a C-order float32 array, padded so that the values start at a multiple of `alignment`.
[[nodiscard]] std::string npy_header(std::span<const std::size_t> shape, std::size_t alignment);

}  // namespace kedge::io
