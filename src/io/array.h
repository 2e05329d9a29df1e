// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/byte_source.h"

#include <string_view>
#include <vector>

namespace kedge::io {

enum class DType : unsigned char { f16, bf16, f32, f64, u8, i8, u16, i16, u32, i32, u64, i64, other };

/// A type that kedge reads, and what numpy, the headers of `.npy` and those of `.safetensors` call it.
struct TypeInfo {
  DType dtype;
  std::size_t size;
  std::string_view numpy, npy, safetensors;
};
inline constexpr TypeInfo kTypes[] = {
    {DType::f16, 2, "float16", "f2", "F16"}, {DType::bf16, 2, "bfloat16", "", "BF16"},
    {DType::f32, 4, "float32", "f4", "F32"}, {DType::f64, 8, "float64", "f8", "F64"},
    {DType::u8, 1, "uint8", "u1", "U8"},     {DType::i8, 1, "int8", "i1", "I8"},
    {DType::u16, 2, "uint16", "u2", "U16"},  {DType::i16, 2, "int16", "i2", "I16"},
    {DType::u32, 4, "uint32", "u4", "U32"},  {DType::i32, 4, "int32", "i4", "I32"},
    {DType::u64, 8, "uint64", "u8", "U64"},  {DType::i64, 8, "int64", "i8", "I64"}};  // in the order of DType

/// 0 for `other`.
[[nodiscard]] constexpr std::size_t size_of(DType dtype) {
  return dtype < DType::other ? kTypes[static_cast<std::size_t>(dtype)].size : 0;
}
[[nodiscard]] constexpr std::string_view to_string(DType dtype) {
  return dtype < DType::other ? kTypes[static_cast<std::size_t>(dtype)].numpy : "other";
}
/// Whether labels and row numbers can be read from it.
[[nodiscard]] constexpr bool is_integer(DType dtype) {
  return dtype >= DType::u8 && dtype <= DType::i64;
}
/// Whether a float32 holds all its values.
[[nodiscard]] constexpr bool fits_float32(DType dtype) {
  return dtype == DType::f32 || size_of(dtype) == 1 || size_of(dtype) == 2;
}

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

/// Throws Error(Code::bad_file) unless it is a matrix of floats or integers whose rows hold values.
void require_matrix(const ArrayInfo& array, const std::string& label);

/// Converts consecutive values, to.size() * size_of(dtype) bytes.
void convert(const std::byte* from, DType dtype, bool swapped, std::span<float> to);
void convert(const std::byte* from, DType dtype, bool swapped, std::span<double> to);
/// Of integers. A value above what int64 holds becomes negative, which no row number and no usual label is.
void convert(const std::byte* from, DType dtype, bool swapped, std::span<std::int64_t> to);

/// Reads and converts values [first, first + to.size()) of an array of this file, in the order they are stored.
void read_values(const ByteSource& file, const ArrayInfo& array, std::size_t first, std::span<float> to);
void read_values(const ByteSource& file, const ArrayInfo& array, std::size_t first, std::span<double> to);
void read_values(const ByteSource& file, const ArrayInfo& array, std::size_t first, std::span<std::int64_t> to);

/// How much is read at once if values are converted: small enough to stay in a core's cache until they are.
inline constexpr std::size_t kReadBytes = std::size_t{1} << 18;

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

/// Reads the header of an `.npy` file, versions 1 to 3. Trusts nothing: throws Error(Code::bad_file) unless the file
/// holds exactly the bytes the header announces.
[[nodiscard]] ArrayInfo parse_npy(const ByteSource& file);

/// The header of a C-order float32 array, padded so that the values start at a multiple of `alignment`.
[[nodiscard]] std::string npy_header(std::span<const std::size_t> shape, std::size_t alignment,
                                     DType dtype = DType::f32);

}  // namespace kedge::io
