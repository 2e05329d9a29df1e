// SPDX-License-Identifier: Apache-2.0
#include "compute/cpu/strassen.h"

#include "compute/operation_cases.h"
#include "support.h"

#include <cmath>
#include <limits>

namespace kedge {
namespace {

using test::quick_random;

/// Rows that are wider than the matrix.
class Wide {
 public:
  Wide(std::size_t rows, std::size_t cols, std::uint64_t seed)
      : cells_(quick_random(rows, cols + 3, seed)), panel_{cells_.cells().data() + 1, rows, cols, cols + 3} {}
  [[nodiscard]] Panel panel() const { return panel_; }
  [[nodiscard]] double operator()(std::size_t r, std::size_t c) const { return panel_.data[r * panel_.stride + c]; }

 private:
  Matrix cells_;
  Panel panel_;
};

struct Shape {
  std::size_t rows, inner, cols;
};

class Strassen : public ::testing::TestWithParam<std::tuple<Shape, bool>> {
 protected:
  Shape shape_ = std::get<0>(GetParam());
  bool sums_ = std::get<1>(GetParam());

  /// The largest error, of values that are as large as the root of the inner size.
  template <class B>
  double error(const Wide& a, const Wide& c, const B& b) {
    double worst = 0;
    for (std::size_t i = 0; i < shape_.rows; ++i) {
      for (std::size_t j = 0; j < shape_.cols; ++j) {
        double sum = 0;
        for (std::size_t k = 0; k < shape_.inner; ++k) sum += a(i, k) * b(k, j);
        const double off = std::abs(c(i, j) - sum);
        worst = std::isnan(off) ? INFINITY : std::max(worst, off);
      }
    }
    return worst / std::sqrt(static_cast<double>(shape_.inner));
  }
  [[nodiscard]] Wide empty() const {
    Wide c(shape_.rows, shape_.cols, 3);
    for (std::size_t i = 0; i < shape_.rows; ++i) {
      std::fill_n(c.panel().data + i * c.panel().stride, shape_.cols, std::numeric_limits<float>::quiet_NaN());
    }
    return c;
  }
};

TEST_P(Strassen, AgreesWithThePlainLoopAgainAndAgain) {
  const Wide a(shape_.rows, shape_.inner, 1), b(shape_.inner, shape_.cols, 2), c = empty();
  cpu::StrassenMatrix matrix(b.panel(), sums_);
  for (int time = 0; time < 2; ++time) {
    matrix.multiply_nn(a.panel(), c.panel());
    EXPECT_LT(error(a, c, b), 1e-5);
  }
}

TEST_P(Strassen, AgreesWithThePlainLoopWhereTheMatrixIsTurned) {
  const Wide a(shape_.rows, shape_.inner, 1), b(shape_.cols, shape_.inner, 2), c = empty();
  cpu::StrassenMatrix matrix(b.panel(), sums_);
  matrix.multiply_nt(a.panel(), c.panel());
  EXPECT_LT(error(a, c, [&](std::size_t k, std::size_t j) { return b(j, k); }), 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Strassen,
                         ::testing::Combine(::testing::Values(Shape{1, 1, 1}, Shape{37, 40, 33}, Shape{128, 2, 2},
                                                              Shape{131, 7, 9}, Shape{257, 1, 20}, Shape{256, 128, 96},
                                                              Shape{519, 301, 135}),
                                            ::testing::Bool()));

TEST(StrassenMatrix, IsForProductsThatStayLargeAndFit) {
  EXPECT_TRUE(cpu::StrassenMatrix::pays(5000, 2432, 2));
  EXPECT_TRUE(cpu::StrassenMatrix::pays(5000, 2432, 8));
  EXPECT_FALSE(cpu::StrassenMatrix::pays(5000, 2432, 64));
  EXPECT_TRUE(cpu::StrassenMatrix::pays(50000, 2432, 2));
  EXPECT_FALSE(cpu::StrassenMatrix::pays(500, 100, 1));
  EXPECT_FALSE(cpu::StrassenMatrix::pays(1000000, 2432, 2));
}

}  // namespace
}  // namespace kedge
