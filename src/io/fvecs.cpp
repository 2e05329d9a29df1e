// SPDX-License-Identifier: Apache-2.0
#include "io/fvecs.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <array>
#include <cstdint>

namespace kedge::io {
namespace {

std::int32_t length_of(std::span<const std::byte> row) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) value |= std::to_integer<std::uint32_t>(row[i]) << (8 * i);
  return static_cast<std::int32_t>(value);
}

}  // namespace

FvecsInfo parse_fvecs(const ByteSource& file) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::bad_file, fmt::format("{}: {}", file.label(), what));
  };
  if (file.size() < 8) refuse("it is too short for an fvecs file, which starts with a row's length");
  std::array<std::byte, 4> first{};
  file.read(0, first);
  const std::int32_t cols = length_of(first);
  if (cols <= 0) refuse(fmt::format("its first row claims {} values; is it an fvecs file?", cols));
  FvecsInfo info;
  info.cols = static_cast<std::size_t>(cols);
  if (file.size() % info.row_bytes() != 0) {
    refuse(fmt::format("{} bytes are not a whole number of rows of {} values; the file was cut short or is not fvecs",
                       file.size(), cols));
  }
  info.rows = file.size() / info.row_bytes();
  return info;
}

const std::byte* fvecs_values(std::span<const std::byte> bytes, const FvecsInfo& info, std::size_t row,
                              const std::string& label) {
  const std::int32_t length = length_of(bytes);
  if (length < 0 || static_cast<std::size_t>(length) != info.cols) {
    throw Error(Code::bad_file,
                fmt::format("{}: row {} claims {} values, but row 0 has {}; all rows must have the same length", label,
                            row, length, info.cols));
  }
  return bytes.data() + 4;
}

}  // namespace kedge::io
