// SPDX-License-Identifier: Apache-2.0
#include "io/fvecs.h"

#include "base/refuse.h"

#include <array>
#include <cstdint>

namespace kedge::io {
namespace {

std::int32_t length_of(std::span<const std::byte> row) {
  return static_cast<std::int32_t>(from_little_endian(row.first(4)));
}

}  // namespace

FvecsInfo parse_fvecs(const ByteSource& file) {
  const std::string& label = file.label();
  if (file.size() < 8) refuse_file("{}: it is too short for an fvecs file, which starts with a row's length", label);
  std::array<std::byte, 4> first{};
  file.read(0, first);
  const std::int32_t cols = length_of(first);
  if (cols <= 0) refuse_file("{}: its first row claims {} values; is it an fvecs file?", label, cols);
  FvecsInfo info;
  info.cols = static_cast<std::size_t>(cols);
  if (file.size() % info.row_bytes() != 0) {
    refuse_file("{}: {} bytes are not a whole number of rows of {} values; the file was cut short or is not fvecs",
                label, file.size(), cols);
  }
  info.rows = file.size() / info.row_bytes();
  return info;
}

const std::byte* fvecs_values(std::span<const std::byte> bytes, const FvecsInfo& info, std::size_t row,
                              const std::string& label) {
  const std::int32_t length = length_of(bytes);
  if (length < 0 || static_cast<std::size_t>(length) != info.cols) {
    refuse_file("{}: row {} claims {} values, but row 0 has {}; all rows must have the same length", label, row, length,
                info.cols);
  }
  return bytes.data() + 4;
}

}  // namespace kedge::io
