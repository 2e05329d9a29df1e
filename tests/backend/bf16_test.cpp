// SPDX-License-Identifier: Apache-2.0
// Products in bfloat16: rounding and panels on every processor, and the kernels of the one that runs this.
#include "backend/cpu/bf16_product.h"
#include "backend/cpu/bfloat16.h"
#include "backend/operation_cases.h"
#include "support.h"

#include <kedge/device.h>

#include <bit>
#include <cmath>
#include <limits>
#include <ostream>

namespace kedge {
namespace cpu {

/// CTest shows it beside the test's name.
void PrintTo(const Bf16Kernel* kernel, std::ostream* out) {
  *out << kernel->name;
}

}  // namespace cpu
namespace {

using cpu::Bf16Kernel;
using cpu::Bf16Panels;
using cpu::from_bfloat16;
using cpu::Side;
using cpu::to_bfloat16;
using test::quick_random;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float rounded(float value) {
  return from_bfloat16(to_bfloat16(value));
}

TEST(Bfloat16, KeepsWhatItCanHold) {
  for (const float value : {0.F, 1.F, -2.5F, 0x1.fep127F, 0x1p-126F, 0x1p-133F, kInfinity, -kInfinity}) {
    EXPECT_EQ(rounded(value), value);
  }
  EXPECT_TRUE(std::signbit(rounded(-0.F)));
}

TEST(Bfloat16, RoundsToTheNearestAndThenToTheEven) {
  EXPECT_EQ(rounded(0x1.01p0F), 1.F) << "halfway between 1 and 1 + 2^-7, of which 1 is even";
  EXPECT_EQ(rounded(0x1.03p0F), 0x1.04p0F) << "halfway between an odd one and an even one";
  EXPECT_EQ(rounded(0x1.010002p0F), 0x1.02p0F);
  EXPECT_EQ(rounded(0x1.02fffep0F), 0x1.02p0F);
  EXPECT_EQ(rounded(-0x1.03p0F), -0x1.04p0F);
  EXPECT_EQ(rounded(0x1.ffp0F), 2.F) << "carries into the exponent";
  EXPECT_EQ(rounded(0x1.fffffep127F), kInfinity);
  EXPECT_EQ(rounded(-0x1.ffp127F), -kInfinity);
  EXPECT_EQ(rounded(0x1.fep127F), 0x1.fep127F) << "the largest there is";
  const Matrix values = quick_random(1, 1000, 1);
  for (const float value : values.cells()) EXPECT_LE(std::abs(rounded(value) - value), std::abs(value) * 0x1p-8F);
}

TEST(Bfloat16, NanStaysNan) {
  for (const std::uint32_t bits : {0x7fc00000U, 0x7f800001U, 0xff800001U, 0x7fffffffU, 0xffffffffU, 0x7f80ffffU}) {
    EXPECT_TRUE(std::isnan(rounded(std::bit_cast<float>(bits)))) << bits;
  }
}

/// What a kernel must do, for the kernels below.
template <const Bf16Kernel& kernel>
void plain_loop(std::size_t depth, const std::uint16_t* left, const std::uint16_t* right, float* tile) {
  const auto value = [](const std::uint16_t* panel, std::size_t lines, std::size_t group, std::size_t line,
                        std::size_t k) { return from_bfloat16(panel[(k / group * lines + line) * group + k % group]); };
  for (std::size_t i = 0; i < kernel.rows; ++i) {
    for (std::size_t j = 0; j < kernel.cols; ++j) {
      float sum = 0;
      for (std::size_t k = 0; k < depth; ++k) {
        sum += value(left, kernel.rows, kernel.left_group, i, k) * value(right, kernel.cols, kernel.right_group, j, k);
      }
      tile[i * kernel.cols + j] = sum;
    }
  }
}

/// Tiles that fit nothing, and groups as the processors have them.
extern const Bf16Kernel kOdd, kLong, kAlike;
const Bf16Kernel kOdd{"odd", 3, 5, 2, 4, 12, plain_loop<kOdd>};
const Bf16Kernel kLong{"long", 4, 7, 32, 2, 64, plain_loop<kLong>};
const Bf16Kernel kAlike{"alike", 12, 32, 2, 2, 40, plain_loop<kAlike>};
const Bf16Kernel* const kPlain[] = {&kOdd, &kLong, &kAlike};

std::vector<const Bf16Kernel*> every_kernel() {
  std::vector<const Bf16Kernel*> all(std::begin(kPlain), std::end(kPlain));
  for (const Bf16Kernel* const* own = cpu::bf16_kernels(); *own != nullptr; ++own) all.push_back(*own);
  return all;
}

class Bf16 : public ::testing::TestWithParam<const Bf16Kernel*> {
 protected:
  const Bf16Kernel& kernel_ = *GetParam();
};
INSTANTIATE_TEST_SUITE_P(Kernels, Bf16, ::testing::ValuesIn(every_kernel()),
                         [](const auto& each) { return std::string(each.param->name); });

TEST(Bf16Kernels, OfThisProcessorAreTested) {
  if (*cpu::bf16_kernels() == nullptr) GTEST_SKIP() << "this processor has no bfloat16 instructions";
  EXPECT_GT(every_kernel().size(), std::size(kPlain));
}

struct Shape {
  std::size_t rows, inner, cols;
};
constexpr Shape kShapes[] = {{1, 1, 1}, {3, 2, 5}, {37, 40, 33}, {13, 301, 70}, {70, 129, 13}, {9, 1100, 35}};

/// Rows that are wider than the matrix.
struct Wide {
  Wide(std::size_t rows, std::size_t cols, std::uint64_t seed)
      : cells(quick_random(rows, cols + 3, seed)), panel{cells.cells().data() + 1, rows, cols, cols + 3} {}
  [[nodiscard]] float operator()(std::size_t r, std::size_t c) const { return panel.data[r * panel.stride + c]; }
  Matrix cells;
  Panel panel;
};

TEST_P(Bf16, PanelsHoldEveryLineAndThenZeros) {
  Bf16Panels left(kernel_, Side::left), right(kernel_, Side::right);
  left.pack(Wide(90, 700, 9).panel, false);  // what was there before
  right.pack(Wide(90, 700, 9).panel, false);
  for (const auto& [rows, cols, unused] : kShapes) {
    const Wide x(rows, cols, 1);
    for (const bool turned : {false, true}) {
      for (auto* panels : {&left, &right}) {
        const std::size_t width = panels == &left ? kernel_.rows : kernel_.cols;
        const std::size_t group = panels == &left ? kernel_.left_group : kernel_.right_group;
        panels->pack(x.panel, turned);
        ASSERT_EQ(panels->lines(), turned ? cols : rows);
        ASSERT_GE(panels->inner(), turned ? rows : cols);
        ASSERT_EQ(panels->inner() % std::max(kernel_.left_group, kernel_.right_group), 0U);
        for (std::size_t line = 0; line < panels->panels() * width; ++line) {
          for (std::size_t k = 0; k < panels->inner(); ++k) {
            const std::size_t r = turned ? k : line, c = turned ? line : k;
            const std::uint16_t* const found = panels->at(line / width, k / group * group) + line % width * group;
            ASSERT_EQ(from_bfloat16(found[k % group]), r < rows && c < cols ? rounded(x(r, c)) : 0)
                << rows << " x " << cols << ", line " << line << ", value " << k << (turned ? ", turned" : "");
          }
        }
      }
    }
  }
}

/// The largest error of alpha a b + beta before, of values that are as large as the root of the inner size.
double error(const Wide& a, bool turn_a, const Wide& b, bool turn_b, float alpha, float beta, const Wide& before,
             const Wide& c) {
  const std::size_t inner = turn_a ? a.panel.rows : a.panel.cols;
  double worst = 0;
  for (std::size_t i = 0; i < c.panel.rows; ++i) {
    for (std::size_t j = 0; j < c.panel.cols; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < inner; ++k) {
        sum += static_cast<double>(rounded(turn_a ? a(k, i) : a(i, k))) * rounded(turn_b ? b(j, k) : b(k, j));
      }
      const double off = std::abs(c(i, j) - (alpha * sum + (beta == 0 ? 0 : beta * before(i, j))));
      worst = std::isnan(off) ? INFINITY : std::max(worst, off);
    }
  }
  return worst / std::sqrt(static_cast<double>(inner));
}

TEST_P(Bf16, ProductsAgreeWithThePlainLoopOverRoundedValues) {
  cpu::Bf16Products products(kernel_);
  for (const auto& [rows, inner, cols] : kShapes) {
    for (const auto& [turn_a, turn_b] : {std::pair{false, false}, {false, true}, {true, false}}) {
      const Wide a(turn_a ? inner : rows, turn_a ? rows : inner, 1), b(turn_b ? cols : inner, turn_b ? inner : cols, 2);
      for (const auto& [alpha, beta] : {std::pair{1.F, 0.F}, {0.5F, 1.F}, {1.F, -2.F}}) {
        const Wide before(rows, cols, 3), c(rows, cols, 3);
        if (beta == 0) std::fill_n(c.panel.data, cols, std::numeric_limits<float>::quiet_NaN());
        products.multiply(alpha, a.panel, turn_a, b.panel, turn_b, beta, c.panel);
        EXPECT_LT(error(a, turn_a, b, turn_b, alpha, beta, before, c), 1e-5)
            << rows << " x " << inner << " x " << cols << (turn_a ? ", a turned" : "") << (turn_b ? ", b turned" : "");
        for (std::size_t i = 0; i < rows; ++i) {
          ASSERT_EQ(c(i, cols), before(i, cols)) << "nothing beside the product is written";
        }
      }
    }
  }
}

TEST_P(Bf16, AMatrixThatNeverChangesIsMultipliedBothWays) {
  cpu::Bf16Products products(kernel_);
  const Wide support(130, 70, 1), a(20, 130, 2), d(20, 70, 3), c(20, 70, 4), e(20, 130, 5);
  const cpu::Bf16Matrix packed(kernel_, support.panel);
  for (int time = 0; time < 2; ++time) {
    products.multiply(a.panel, packed.plain(), c.panel);
    EXPECT_LT(error(a, false, support, false, 1, 0, c, c), 1e-5);
    products.multiply(d.panel, packed.turned(), e.panel);
    EXPECT_LT(error(d, false, support, true, 1, 0, e, e), 1e-5);
  }
}

TEST_P(Bf16, AnyNumberOfThreadsGivesTheSameBits) {
  cpu::Bf16Products products(kernel_);
  const Wide a(350, 80, 1), b(80, 170, 2), alone(350, 170, 3), together(350, 170, 3);  // several blocks of tiles
  const unsigned before = threads();
  set_threads(1);
  products.multiply(1, a.panel, false, b.panel, false, 0, alone.panel);
  set_threads(3);
  products.multiply(1, a.panel, false, b.panel, false, 0, together.panel);
  set_threads(before);
  EXPECT_EQ(std::vector(alone.cells.cells().begin(), alone.cells.cells().end()),
            std::vector(together.cells.cells().begin(), together.cells.cells().end()));
}

TEST(Bf16Precision, SaysWhatIsMissingWhereAProcessorLacksIt) {
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    EXPECT_NO_THROW(require_precision(Device::cpu, precision));
  }
  EXPECT_NO_THROW(require_precision(Device::cuda, Precision::bf16)) << "every GPU has it";
  if (*cpu::bf16_kernels() != nullptr) {
    EXPECT_NO_THROW(require_precision(Device::cpu, Precision::bf16));
    EXPECT_EQ(make_cpu_backend(Precision::bf16)->name(), "cpu, bf16");
    return;
  }
  test::expect_error(
      Code::failed, [] { (void)make_cpu_backend(Precision::bf16); }, "bfloat16", "this one has none", "fp32");
}

}  // namespace
}  // namespace kedge
