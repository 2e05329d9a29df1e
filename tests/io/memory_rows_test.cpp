// SPDX-License-Identifier: Apache-2.0
#include "files.h"

#include <bit>
#include <cstdint>

namespace kedge {
namespace {

using test::read_doubles;
using test::read_floats;
using Type = ArrayView::Type;

constexpr std::size_t kRows = 23, kCols = 7;
constexpr Type kTypes[] = {Type::f16, Type::bf16, Type::f32, Type::f64, Type::u8};

/// Whole numbers below 256, which every type holds exactly.
unsigned value_at(std::size_t r, std::size_t c) {
  return static_cast<unsigned>(r * kCols + c);
}

std::uint16_t half_of(unsigned value) {
  if (value == 0) return 0;
  const auto exponent = static_cast<unsigned>(std::bit_width(value)) - 1;
  return static_cast<std::uint16_t>((exponent + 15) << 10 | ((value << (10 - exponent)) & 0x3ff));
}

std::string stored(Type type, unsigned value, std::endian order) {
  const auto real = static_cast<float>(value);
  switch (type) {
    case Type::f16: return test::packed({half_of(value)}, order);
    case Type::bf16: return test::packed({static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(real) >> 16)}, order);
    case Type::f32: return test::packed({real}, order);
    case Type::f64: return test::packed({static_cast<double>(real)}, order);
    case Type::u8: return test::packed({static_cast<std::uint8_t>(value)}, order);
  }
  return {};
}

/// How far rows and columns are apart, in values; if one is 0, all of them are the first.
struct Layout {
  const char* name;
  std::ptrdiff_t row, col;
};
constexpr Layout kLayouts[] = {
    {"packed", kCols, 1},        {"padded", kCols + 3, 1},          {"every other column", 2 * kCols, 2},
    {"by columns", 1, kRows},    {"rows reversed", -7, 1},          {"columns reversed", kCols, -1},
    {"all reversed", -7, -1},    {"one row for all", 0, 1},         {"one column for all", kCols, 0},
    {"one value for all", 0, 0}, {"by columns, reversed", -1, -23},
};

/// The matrix laid out that way in memory that ends where it ends, `offset` bytes into the memory.
class Laid {
 public:
  Laid(Type type, Layout layout, std::endian order, std::size_t offset)
      : width_(stored(type, 0, order).size()), row_(in_bytes(layout.row)), col_(in_bytes(layout.col)) {
    const auto reach = [](std::ptrdiff_t step, std::size_t count) {
      return static_cast<std::size_t>(std::abs(step)) * (count - 1);
    };
    const std::size_t before = (row_ < 0 ? reach(row_, kRows) : 0) + (col_ < 0 ? reach(col_, kCols) : 0);
    bytes_.resize(offset + reach(row_, kRows) + reach(col_, kCols) + width_);
    array_ = {bytes_.data() + offset + before, type, kRows, kCols, row_, col_, order != std::endian::native};
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t c = 0; c < kCols; ++c) {
        const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(r) * row_ + static_cast<std::ptrdiff_t>(c) * col_;
        const std::string value = stored(type, expected(r, c), order);
        std::memcpy(bytes_.data() + static_cast<std::ptrdiff_t>(offset + before) + at, value.data(), width_);
      }
    }
  }
  [[nodiscard]] unsigned expected(std::size_t r, std::size_t c) const {
    return value_at(row_ == 0 ? 0 : r, col_ == 0 ? 0 : c);
  }
  [[nodiscard]] ArrayView view() const { return array_; }

 private:
  [[nodiscard]] std::ptrdiff_t in_bytes(std::ptrdiff_t values) const {
    return values * static_cast<std::ptrdiff_t>(width_);
  }

  std::size_t width_;
  std::ptrdiff_t row_, col_;
  std::vector<std::byte> bytes_;
  ArrayView array_;
};

template <class T>
void expect_every_block(const Laid& laid) {
  const auto rows = view_rows(laid.view(), "array");
  ASSERT_EQ(rows->rows(), kRows);
  ASSERT_EQ(rows->cols(), kCols);
  for (const std::size_t stride : {kCols, kCols + 2}) {
    for (std::size_t first = 0; first <= kRows; first += 4) {
      for (std::size_t count = 0; first + count <= kRows; count += 3) {
        std::vector<T> cells(count * stride + 1, -999);
        rows->read(first, MatrixView<T>{cells.data(), count, kCols, stride});
        std::vector<T> expected(cells.size(), -999);
        for (std::size_t r = 0; r < count; ++r) {
          for (std::size_t c = 0; c < kCols; ++c) {
            expected[r * stride + c] = static_cast<T>(laid.expected(first + r, c));
          }
        }
        ASSERT_EQ(cells, expected) << count << " rows from " << first << ", stride " << stride;
      }
    }
  }
}

TEST(ArrayView, ReadsAnyBlockOfAnyTypeAndLayout) {
  for (const Type type : kTypes) {
    for (const Layout& layout : kLayouts) {
      for (const auto order : {std::endian::little, std::endian::big}) {
        for (const std::size_t offset : {0U, 1U, 3U}) {  // all but 0 leave the values unaligned
          SCOPED_TRACE(::testing::Message() << layout.name << ", type " << static_cast<int>(type) << ", offset "
                                            << offset << (order == std::endian::native ? "" : ", swapped"));
          const Laid laid(type, layout, order, offset);
          expect_every_block<float>(laid);
          expect_every_block<double>(laid);
        }
      }
    }
  }
}

TEST(ArrayView, TakesStepsThatAreNoMultipleOfAValue) {
  // As a column of a numpy record array is: a byte, then a float.
  std::string records;
  for (std::size_t i = 0; i < 6; ++i) records += "x" + test::packed({static_cast<float>(i)});
  const auto rows = view_rows({records.data() + 1, Type::f32, 3, 2, 10, 5, false}, "records");
  EXPECT_THAT(read_floats(*rows), ::testing::ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(ArrayView, KeepsDoublesExact) {
  const std::vector<double> values{0.1, 1e300, -0.1, -1e300};
  const auto rows = view_rows({values.data() + 3, Type::f64, 2, 2, -16, -8, false}, "doubles");
  EXPECT_THAT(read_doubles(*rows), ::testing::ElementsAre(-1e300, -0.1, 1e300, 0.1));
}

TEST(ArrayView, MayBeEmpty) {
  for (const auto& [rows, cols] : {std::pair<std::size_t, std::size_t>{0, 5}, {5, 0}, {0, 0}}) {
    const auto source = view_rows({nullptr, Type::f32, rows, cols, 0, 4, false}, "empty");
    EXPECT_EQ(source->label(), "empty");
    EXPECT_TRUE(read_floats(*source).empty());
  }
}

}  // namespace
}  // namespace kedge
