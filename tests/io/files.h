// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../support.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge::test {

/// A copy that ends where the text ends, so that a sanitizer sees a read past it.
inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// The values one after the other, as they lie in a file of this byte order.
template <class T>
std::string packed(std::initializer_list<T> values, std::endian order = std::endian::little) {
  std::string bytes;
  for (const T value : values) {
    std::string one(sizeof(T), '\0');
    std::memcpy(one.data(), &value, sizeof(T));
    if (order != std::endian::native) std::reverse(one.begin(), one.end());
    bytes += one;
  }
  return bytes;
}

/// An npy file with this dictionary; `claimed` is a false length of the header.
inline std::string npy_file(std::string dictionary, std::string_view values, int version = 1, long claimed = -1) {
  dictionary += '\n';
  const std::size_t length = claimed < 0 ? dictionary.size() : static_cast<std::size_t>(claimed);
  std::string file = "\x93NUMPY";
  file += {static_cast<char>(version), '\0'};
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) file += static_cast<char>(length >> (8 * i) & 0xff);
  return file.append(dictionary).append(values);
}

inline std::string npy_dictionary(const std::string& descr, const std::string& shape, bool fortran_order = false) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran_order ? "True" : "False") + ", 'shape': " + shape +
         ", }";
}

inline std::string safetensors_file(std::string_view header, std::string_view values) {
  return packed<std::uint64_t>({header.size()}).append(header).append(values);
}

inline std::vector<float> read_floats(const RowSource& rows) {
  Matrix all(rows.rows(), rows.cols());
  rows.read(0, all.view());
  return {all.cells().begin(), all.cells().end()};
}

inline std::vector<double> read_doubles(const RowSource& rows) {
  Matrix64 all(rows.rows(), rows.cols());
  rows.read(0, all.view());
  return {all.cells().begin(), all.cells().end()};
}

}  // namespace kedge::test
