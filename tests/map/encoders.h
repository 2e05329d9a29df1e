// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support.h"

#include <cmath>
#include <map>

namespace kedge::test {

constexpr std::size_t kRows = 400, kFitted = 300;

/// Rows of length 1, which embeddings are near to: a kernel sees directions only.
inline Matrix directions(std::size_t rows, std::size_t dim, unsigned seed) {
  Matrix x = random_matrix(rows, dim, seed);
  normalize_rows(x.view());
  return x;
}

/// hidden times a random matrix and some noise; bent if the encoder is not a linear view of it.
inline Matrix view_of(const Matrix& hidden, std::size_t dim, unsigned seed, bool bent, float level) {
  const Matrix mix = random_matrix(hidden.cols(), dim, seed), noise = random_matrix(hidden.rows(), dim, seed + 10);
  Matrix x(hidden.rows(), dim);
  for (std::size_t r = 0; r < x.rows(); ++r) {
    for (std::size_t c = 0; c < dim; ++c) {
      float sum = 0;
      for (std::size_t k = 0; k < hidden.cols(); ++k) sum += hidden.row(r)[k] * mix.row(k)[c];
      x.row(r)[c] = 3 + (bent ? std::tanh(2 * sum) : sum) + level * noise.row(r)[c];
    }
  }
  return x;
}

struct Encoders {
  explicit Encoders(bool bent = true, float level = 0.1F) {
    const Matrix hidden = directions(kRows, 3, 1);
    all.emplace("a", view_of(hidden, 6, 2, false, level));
    all.emplace("b", view_of(hidden, 8, 3, bent, level));
    all.emplace("c", view_of(hidden, 5, 4, bent, level));
  }
  [[nodiscard]] Space space(const std::string& name, RowRange rows = {0, kFitted}) const {
    return {name, view_rows(all.at(name).view(), name), rows};
  }
  [[nodiscard]] Bundle fitted(FitOptions options) const {
    if (!options.anchors && !is_adapter(options.method)) options.anchors = 4;
    if (std::holds_alternative<Param>(options.method)) {
      std::get<Param>(options.method).epochs = 3;
      std::get<Param>(options.method).batch = 64;
    }
    return fit(std::vector{space("a"), space("b")}, options);
  }
  [[nodiscard]] MatrixView<const float> unseen(const std::string& name) const {
    return all.at(name).view().middle_rows(kFitted, kRows - kFitted);
  }
  std::map<std::string, Matrix> all;
};

inline FitOptions with(const Method& method, std::optional<AttachBy> by = {}) {
  FitOptions options;
  options.method = method;
  options.attach_by = by;
  return options;
}

/// To the bit.
inline void expect_same(const RelativeMap& found, const RelativeMap& wanted) {
  EXPECT_TRUE(std::ranges::equal(found.weight().cells(), wanted.weight().cells()));
  EXPECT_EQ(found.bias(), wanted.bias());
  EXPECT_EQ(found.mean(), wanted.mean());
  ASSERT_EQ(found.kernel().has_value(), wanted.kernel().has_value());
  if (!wanted.kernel()) return;
  EXPECT_EQ(found.kernel()->width, wanted.kernel()->width);
  EXPECT_TRUE(std::ranges::equal(found.kernel()->whitener.cells(), wanted.kernel()->whitener.cells()));
  EXPECT_TRUE(std::ranges::equal(found.kernel()->rows.cells(), wanted.kernel()->rows.cells()));
  EXPECT_TRUE(std::ranges::equal(found.kernel()->coefficients.cells(), wanted.kernel()->coefficients.cells()));
}

}  // namespace kedge::test
