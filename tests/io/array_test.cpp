// SPDX-License-Identifier: Apache-2.0
#include "files.h"
#include "io/array.h"

#include <cmath>
#include <cstdint>
#include <limits>

namespace kedge::io {
namespace {

using test::bytes_of;
using test::expect_error;
using test::packed;

constexpr bool kSwapped = true;
constexpr std::endian kOther = std::endian::native == std::endian::little ? std::endian::big : std::endian::little;

/// The definition of IEEE 754 binary16, in words rather than bits.
double slow_half(std::uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int fraction = half & 1023;
  const double sign = (half & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) return sign * (fraction == 0 ? HUGE_VAL : std::nan(""));
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

template <class T>
T convert_one(const std::string& bytes, DType dtype, bool swapped = false) {
  T value = 0;
  convert(bytes_of(bytes).data(), dtype, swapped, std::span(&value, 1));
  return value;
}

template <class T>
void expect_same(T found, double expected, int half) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << "half " << half;
  } else {
    EXPECT_EQ(found, expected) << "half " << half;
    EXPECT_EQ(std::signbit(found), std::signbit(expected)) << "half " << half;
  }
}

TEST(Array, ConvertsEveryHalfInOneBlock) {
  std::string bytes;
  for (int half = 0; half <= 0xffff; ++half) bytes += packed({static_cast<std::uint16_t>(half)}, std::endian::native);
  std::vector<float> floats(0x10000);
  std::vector<double> doubles(0x10000);
  convert(bytes_of(bytes).data(), DType::f16, !kSwapped, std::span(floats));
  convert(bytes_of(bytes).data(), DType::f16, !kSwapped, std::span(doubles));
  for (int half = 0; half <= 0xffff; ++half) {
    const double expected = slow_half(static_cast<std::uint16_t>(half));
    expect_same(floats[static_cast<std::size_t>(half)], expected, half);
    expect_same(doubles[static_cast<std::size_t>(half)], expected, half);
  }
}

TEST(Array, ConvertsEveryHalfAloneInBothByteOrders) {
  for (int half = 0; half <= 0xffff; ++half) {
    const auto bits = static_cast<std::uint16_t>(half);
    const double expected = slow_half(bits);
    expect_same(convert_one<float>(packed({bits}, std::endian::native), DType::f16), expected, half);
    expect_same(convert_one<float>(packed({bits}, kOther), DType::f16, kSwapped), expected, half);
  }
}

TEST(Array, ConvertsTheHalvesPeopleKnow) {
  const auto half = [](std::uint16_t bits) {
    return convert_one<float>(packed({bits}, std::endian::native), DType::f16);
  };
  EXPECT_EQ(half(0x3c00), 1.0F);
  EXPECT_EQ(half(0xc000), -2.0F);
  EXPECT_EQ(half(0x7bff), 65504.0F);
  EXPECT_EQ(half(0x0001), 0x1p-24F);
  EXPECT_EQ(half(0x03ff), 1023 * 0x1p-24F);
  EXPECT_EQ(half(0x0400), 0x1p-14F);
  EXPECT_EQ(half(0x7c00), std::numeric_limits<float>::infinity());
  EXPECT_EQ(half(0xfc00), -std::numeric_limits<float>::infinity());
  EXPECT_FALSE(std::signbit(half(0x0000)));
  EXPECT_TRUE(std::signbit(half(0x8000)));
}

TEST(Array, ConvertsBlocksOfAnyLengthAndLeavesTheRestAlone) {
  for (std::size_t count = 0; count < 40; ++count) {
    std::string bytes;
    for (std::size_t i = 0; i < count; ++i)
      bytes += packed({static_cast<std::uint16_t>(0x3c00 + i)}, std::endian::native);
    std::vector<float> values(count + 1, -7);
    convert(bytes_of(bytes).data(), DType::f16, !kSwapped, std::span(values).first(count));
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(values[i], 1 + static_cast<float>(i) / 1024) << count;
    EXPECT_EQ(values[count], -7);
  }
}

TEST(Array, ReadsFromUnalignedAddresses) {
  const auto bytes = bytes_of("x" + packed({1.5F, -2.0F}, std::endian::native));
  std::vector<float> values(2);
  convert(bytes.data() + 1, DType::f32, !kSwapped, std::span(values));
  EXPECT_THAT(values, ::testing::ElementsAre(1.5F, -2.0F));
}

TEST(Array, ConvertsBfloat16ByItsUpperHalf) {
  const auto bf16 = [](std::uint16_t bits) {
    return convert_one<float>(packed({bits}, std::endian::native), DType::bf16);
  };
  EXPECT_EQ(bf16(0x3f80), 1.0F);
  EXPECT_EQ(bf16(0xc049), -3.140625F);
  EXPECT_EQ(bf16(0x0001), std::ldexp(1.0F, -133));
  EXPECT_EQ(bf16(0x7f80), std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(bf16(0x7fc0)));
  EXPECT_TRUE(std::signbit(bf16(0x8000)));
  EXPECT_EQ(convert_one<float>(packed({std::uint16_t{0x3f80}}, kOther), DType::bf16, kSwapped), 1.0F);
}

TEST(Array, KeepsEveryBitOfDoubles) {
  for (const double value : {0.1, -1e300, 5e-324, 0x1.fffffffffffffp1023, -0.0}) {
    const double same = convert_one<double>(packed({value}, std::endian::native), DType::f64);
    const double swapped = convert_one<double>(packed({value}, kOther), DType::f64, kSwapped);
    EXPECT_EQ(std::bit_cast<std::uint64_t>(same), std::bit_cast<std::uint64_t>(value));
    EXPECT_EQ(std::bit_cast<std::uint64_t>(swapped), std::bit_cast<std::uint64_t>(value));
  }
}

TEST(Array, RoundsDoublesToTheNearestFloat) {
  EXPECT_EQ(convert_one<float>(packed({0.1}, std::endian::native), DType::f64), 0.1F);
  EXPECT_EQ(convert_one<float>(packed({1e300}, std::endian::native), DType::f64),
            std::numeric_limits<float>::infinity());
}

TEST(Array, ReadsIntegersOfBothWidthsAndOrders) {
  constexpr std::int64_t kLarge = -0x0123456789abcdef;
  EXPECT_EQ(convert_one<std::int64_t>(packed({kLarge}, std::endian::native), DType::i64), kLarge);
  EXPECT_EQ(convert_one<std::int64_t>(packed({kLarge}, kOther), DType::i64, kSwapped), kLarge);
  EXPECT_EQ(convert_one<std::int64_t>("\xfe", DType::u8), 254);
  EXPECT_EQ(convert_one<std::int64_t>("\xfe", DType::i8), -2);
  EXPECT_EQ(convert_one<std::int64_t>(packed({std::int16_t{-2}}, std::endian::native), DType::i16), -2);
  EXPECT_EQ(convert_one<std::int64_t>(packed({std::uint16_t{65534}}, kOther), DType::u16, kSwapped), 65534);
  EXPECT_EQ(convert_one<std::int64_t>(packed({4294967294U}, std::endian::native), DType::u32), 4294967294);
  EXPECT_EQ(convert_one<std::int64_t>(packed({7UL}, std::endian::native), DType::u64), 7);
  EXPECT_EQ(convert_one<std::int64_t>(packed({std::int32_t{-5}}, std::endian::native), DType::i32), -5);
  EXPECT_EQ(convert_one<std::int64_t>(packed({std::int32_t{-5}}, kOther), DType::i32, kSwapped), -5);
}

TEST(Array, ReadsEveryIntegerAsTheFloatNearestToItsDouble) {
  EXPECT_EQ(convert_one<float>("\xfe", DType::u8), 254.0F);
  EXPECT_EQ(convert_one<double>("\xfe", DType::u8), 254.0);
  EXPECT_EQ(convert_one<float>("\xfe", DType::i8), -2.0F);
  EXPECT_EQ(convert_one<double>(packed({std::int16_t{-2}}, kOther), DType::i16, kSwapped), -2.0);
  EXPECT_EQ(convert_one<float>(packed({std::uint16_t{65535}}, std::endian::native), DType::u16), 65535.0F);
  EXPECT_EQ(convert_one<double>(packed({INT32_MIN}, kOther), DType::i32, kSwapped), -0x1p31);
  EXPECT_EQ(convert_one<double>(packed({UINT32_MAX}, std::endian::native), DType::u32), 4294967295.0);
  EXPECT_EQ(convert_one<double>(packed({INT64_MIN}, kOther), DType::i64, kSwapped), -0x1p63);
  EXPECT_EQ(convert_one<float>(packed({UINT64_MAX}, std::endian::native), DType::u64), 0x1p64F);
  // Just above the middle of two floats; the double is the middle, and its even neighbour is the lower one.
  constexpr std::int64_t kBetween = (std::int64_t{1} << 60) + (std::int64_t{1} << 36) + 1;
  EXPECT_EQ(convert_one<float>(packed({kBetween}, std::endian::native), DType::i64), 0x1p60F);
}

TEST(Array, SaysWhichTypesAFloat32Holds) {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::u8, DType::i8, DType::u16, DType::i16})
    EXPECT_TRUE(fits_float32(dtype)) << to_string(dtype);
  for (const DType dtype : {DType::f64, DType::u32, DType::i32, DType::u64, DType::i64, DType::other})
    EXPECT_FALSE(fits_float32(dtype)) << to_string(dtype);
}

TEST(Array, RefusesFloatsAsIntegersAndWhatItDoesNotKnow) {
  expect_error(
      Code::bad_file, [] { convert_one<std::int64_t>(packed({1.0F}), DType::f32); }, "float32", "integers");
  expect_error(
      Code::bad_file, [] { convert_one<float>("x", DType::other); }, "other");
}

TEST(Array, RefusesWhatIsNoMatrixOfNumbers) {
  const auto require = [](DType dtype, std::vector<std::size_t> shape) {
    ArrayInfo array;
    array.dtype = dtype;
    array.shape = std::move(shape);
    require_matrix(array, "x.npy");
  };
  EXPECT_NO_THROW(require(DType::f16, {3, 4}));
  EXPECT_NO_THROW(require(DType::f32, {0, 4}));
  EXPECT_NO_THROW(require(DType::i64, {3, 4}));
  expect_error(
      Code::bad_file, [&] { require(DType::f32, {}); }, "x.npy", "0 dimension");
  expect_error(
      Code::bad_file, [&] { require(DType::f32, {12}); }, "x.npy", "1 dimension");
  expect_error(
      Code::bad_file,
      [&] {
        require(DType::f32, {2, 3, 4});
      },
      "2 x 3 x 4");
  expect_error(
      Code::bad_file,
      [&] {
        require(DType::f32, {3, 0});
      },
      "no values");
  expect_error(
      Code::bad_file,
      [&] {
        require(DType::other, {3, 4});
      },
      "x.npy", "does not read");
}

}  // namespace
}  // namespace kedge::io
