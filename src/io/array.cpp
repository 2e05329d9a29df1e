// SPDX-License-Identifier: Apache-2.0
#include "io/array.h"

#include "base/wording.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <type_traits>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace kedge::io {
namespace {

template <class T>
T load(const std::byte* from, bool swapped) {
  T value;
  std::memcpy(&value, from, sizeof value);
  if (swapped) {
    if constexpr (sizeof(T) == 2) value = __builtin_bswap16(value);
    if constexpr (sizeof(T) == 4) value = __builtin_bswap32(value);
    if constexpr (sizeof(T) == 8) value = __builtin_bswap64(value);
  }
  return value;
}

float half_to_float(std::uint16_t half) {
  // Shifting puts exponent and fraction in place; the product rebiases the exponent and is exact for subnormals too.
  const float magnitude = std::bit_cast<float>((half & 0x7fffU) << 13) * 0x1p112F;
  std::uint32_t bits = std::bit_cast<std::uint32_t>(magnitude);
  if ((half & 0x7c00U) == 0x7c00U) bits |= 0x7f800000U;  // infinity and NaN
  return std::bit_cast<float>(bits | (half & 0x8000U) << 16);
}

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) std::size_t convert_halves_f16c(const std::byte* from, std::span<float> to) {
  std::size_t i = 0;
  for (; i + 8 <= to.size(); i += 8) {
    const __m128i halves = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i));
    _mm256_storeu_ps(to.data() + i, _mm256_cvtph_ps(halves));
  }
  return i;
}

bool has_f16c() {  // clang 14 does not know it by name
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __builtin_cpu_supports("avx") != 0 && __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}

std::size_t convert_halves_fast(const std::byte* from, std::span<float> to) {
  static const bool available = has_f16c();
  return available ? convert_halves_f16c(from, to) : 0;
}
#else
std::size_t convert_halves_fast(const std::byte*, std::span<float>) {
  return 0;
}
#endif

/// Wide integers become floats by way of doubles, as in Python's arrays: a file and an array give the same bits.
template <class To>
void convert_integers(const std::byte* from, DType dtype, bool swapped, std::span<To> to) {
  const auto each = [&]<class Stored>(Stored) {
    using Through = std::conditional_t<std::is_integral_v<To> || sizeof(Stored) <= 2, To, double>;
    for (std::size_t i = 0; i < to.size(); ++i) {
      const auto bits = load<std::make_unsigned_t<Stored>>(from + i * sizeof(Stored), swapped);
      to[i] = static_cast<To>(static_cast<Through>(static_cast<Stored>(bits)));
    }
  };
  switch (dtype) {
    case DType::u8: return each(std::uint8_t{});
    case DType::i8: return each(std::int8_t{});
    case DType::u16: return each(std::uint16_t{});
    case DType::i16: return each(std::int16_t{});
    case DType::u32: return each(std::uint32_t{});
    case DType::i32: return each(std::int32_t{});
    case DType::u64: return each(std::uint64_t{});
    case DType::i64: return each(std::int64_t{});
    default: refuse_file("cannot read {} values as integers", to_string(dtype));
  }
}

template <class To>
void convert_values(const std::byte* from, DType dtype, bool swapped, std::span<To> to) {
  const auto each = [&](std::size_t width, auto value_at) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = static_cast<To>(value_at(from + i * width));
  };
  switch (dtype) {
    case DType::f16: each(2, [&](auto* at) { return half_to_float(load<std::uint16_t>(at, swapped)); }); break;
    case DType::bf16:
      each(2, [&](auto* at) {
        return std::bit_cast<float>(static_cast<std::uint32_t>(load<std::uint16_t>(at, swapped)) << 16);
      });
      break;
    case DType::f32: each(4, [&](auto* at) { return std::bit_cast<float>(load<std::uint32_t>(at, swapped)); }); break;
    case DType::f64: each(8, [&](auto* at) { return std::bit_cast<double>(load<std::uint64_t>(at, swapped)); }); break;
    default: convert_integers(from, dtype, swapped, to);
  }
}

/// `same` is the type that is stored as T is, so that nothing is converted.
template <class T>
void read_converted(const ByteSource& file, const ArrayInfo& array, DType same, std::size_t first, std::span<T> to) {
  const std::size_t width = size_of(array.dtype);
  if (width == 0) refuse_file("{}: its values have a type kedge does not read", file.label());
  const std::size_t offset = array.offset + first * width;
  if (array.dtype == same && !array.swapped) return file.read(offset, std::as_writable_bytes(to));
  const std::size_t most = std::min(to.size(), kReadBytes / width);
  const auto bytes = std::make_unique_for_overwrite<std::byte[]>(most * width);
  for (std::size_t done = 0; done < to.size(); done += most) {
    const std::size_t count = std::min(most, to.size() - done);
    file.read(offset + done * width, {bytes.get(), count * width});
    convert(bytes.get(), array.dtype, array.swapped, to.subspan(done, count));
  }
}

std::int32_t length_of(std::span<const std::byte> row) {
  return static_cast<std::int32_t>(from_little_endian(row.first(4)));
}

}  // namespace

void require_matrix(const ArrayInfo& array, const std::string& label) {
  if (array.shape.size() != 2) {
    refuse_file("{}: expected a matrix of rows x dim, found {} dimension(s) [{}]; reshape it to one row per input",
                label, array.shape.size(), fmt::join(array.shape, " x "));
  }
  if (array.shape[1] == 0) refuse_file("{}: its rows hold no values", label);
  if (array.dtype == DType::other) {
    refuse_file(
        "{}: its values have a type that kedge does not read, expected floats of at least 16 bits or integers; "
        "convert it to float32",
        label);
  }
}

void convert(const std::byte* from, DType dtype, bool swapped, std::span<float> to) {
  if (to.empty()) return;  // memcpy takes no null pointer
  std::size_t done = 0;
  if (dtype == DType::f16 && !swapped) done = convert_halves_fast(from, to);
  if (dtype == DType::f32 && !swapped) {
    std::memcpy(to.data(), from, to.size_bytes());
    return;
  }
  convert_values(from + done * size_of(dtype), dtype, swapped, to.subspan(done));
}

void convert(const std::byte* from, DType dtype, bool swapped, std::span<double> to) {
  if (!fits_float32(dtype)) return convert_values(from, dtype, swapped, to);
  std::array<float, 512> part;  // float has the fast conversions and holds all values of these types
  for (std::size_t first = 0; first < to.size(); first += part.size()) {
    const std::size_t count = std::min(part.size(), to.size() - first);
    convert(from + first * size_of(dtype), dtype, swapped, std::span(part).first(count));
    std::copy_n(part.begin(), count, to.begin() + static_cast<std::ptrdiff_t>(first));
  }
}

void convert(const std::byte* from, DType dtype, bool swapped, std::span<std::int64_t> to) {
  convert_integers(from, dtype, swapped, to);
}

void read_values(const ByteSource& file, const ArrayInfo& array, std::size_t first, std::span<float> to) {
  read_converted(file, array, DType::f32, first, to);
}
void read_values(const ByteSource& file, const ArrayInfo& array, std::size_t first, std::span<double> to) {
  read_converted(file, array, DType::f64, first, to);
}
void read_values(const ByteSource& file, const ArrayInfo& array, std::size_t first, std::span<std::int64_t> to) {
  read_converted(file, array, DType::i64, first, to);
}

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
