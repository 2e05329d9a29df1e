// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/byte_source.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge::io {

enum class DType { f16, bf16, f32, f64, u8, i8, u16, i16, u32, i32, u64, i64, other };

[[nodiscard]] std::size_t size_of(DType dtype);
[[nodiscard]] std::string_view to_string(DType dtype);

/// One array inside a file, as its header describes it; the bytes [offset, offset + bytes) are known to exist.
struct ArrayInfo {
  DType dtype = DType::f32;
  bool swapped = false;        ///< bytes of each value in the other order than this machine's
  bool boolean = false;        ///< bytes that are 0 or 1
  bool fortran_order = false;  ///< columns, not rows, are contiguous
  std::vector<std::size_t> shape;
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

/// Whether labels and row numbers can be read from it.
[[nodiscard]] bool is_integer(DType dtype);
/// Whether a float32 holds all its values.
[[nodiscard]] bool fits_float32(DType dtype);

/// rows x cols of a matrix of floats or integers; throws Error(Code::bad_file) for any other shape or type.
void require_matrix(const ArrayInfo& array, const std::string& label);

/// Copies `count` consecutive values to float or double. `from` must hold count * size_of(dtype) bytes.
void convert(const std::byte* from, DType dtype, bool swapped, std::span<float> to);
void convert(const std::byte* from, DType dtype, bool swapped, std::span<double> to);
/// The same for integers. What was larger than int64 has comes out negative, which no row number and no usual label is.
void convert(const std::byte* from, DType dtype, bool swapped, std::span<std::int64_t> to);

/// Reads values [first, first + to.size()) of an array that lies in this file, in the order they are stored, converted.
void read_values(const ByteSource& file, const ArrayInfo& array, std::size_t first, std::span<float> to);
void read_values(const ByteSource& file, const ArrayInfo& array, std::size_t first, std::span<double> to);
void read_values(const ByteSource& file, const ArrayInfo& array, std::size_t first, std::span<std::int64_t> to);

/// How much is read at once where values are converted: small enough to stay in a core's cache until they are.
inline constexpr std::size_t kReadBytes = std::size_t{1} << 18;

}  // namespace kedge::io
