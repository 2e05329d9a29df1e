// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/array.h"

#include <kedge/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A copy on the heap that ends where the text ends, so that a read past it is seen.
inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// The input as a header and values, parted at its first zero byte. Mutations rarely keep lengths consistent, so each
/// target also builds a file with right lengths out of these two.
struct Parts {
  std::string_view header, values;
};
inline Parts parts_of(std::string_view text) {
  const std::size_t end = std::min(text.find('\0'), text.size());
  return {text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
}

inline std::string frame_safetensors(const Parts& parts) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(parts.header.size() >> (8 * i) & 0xff);
  return file.append(parts.header).append(parts.values);
}

/// Runs `work`, which may refuse its file but may do nothing else wrong.
template <class Work>
void refuse_or_read(Work work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() == Code::bad_file && error.what()[0] != '\0') return;
    std::fprintf(stderr, "a bad file gave another error: %s\n", error.what());
    std::abort();
  }
}

/// Reads all values in every way the product reads an array of this type.
inline void read_values(std::span<const std::byte> file, const io::ArrayInfo& array) {
  const std::byte* from = file.data() + array.offset;
  if (array.dtype == io::DType::other) return;
  const std::size_t count = array.bytes / io::size_of(array.dtype);
  if (array.dtype == io::DType::i32 || array.dtype == io::DType::i64) {
    std::vector<std::int64_t> integers(count);
    io::convert(from, array.dtype, array.swapped, std::span(integers));
    return;
  }
  std::vector<float> floats(count);
  io::convert(from, array.dtype, array.swapped, std::span(floats));
  std::vector<double> doubles(count);
  io::convert(from, array.dtype, array.swapped, std::span(doubles));
}

}  // namespace kedge::fuzz
