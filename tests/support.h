// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <kedge/kedge.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <string_view>

namespace kedge::test {

/// A folder of its own for one test, removed afterwards.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "kedge-test-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  [[nodiscard]] std::string file(const std::string& name) const { return (path_ / name).string(); }
  [[nodiscard]] std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.push_back(entry.path().filename().string());
    return names;
  }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

inline std::string read_file(const std::string& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

/// Runs `work`, which must throw kedge::Error with this code and every one of these words in its sentence.
template <class Work, class... Words>
void expect_error(Code code, const Work& work, const Words&... words) {
  try {
    work();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    for (const std::string_view word : std::initializer_list<std::string_view>{words...}) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr(std::string(word)));
    }
  }
}

inline Matrix random_matrix(std::size_t rows, std::size_t cols, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  Matrix matrix(rows, cols);
  for (float& cell : matrix.cells()) cell = normal(engine);
  return matrix;
}

inline Space space_of(const std::string& name, const Matrix& matrix) {
  return {name, view_rows(matrix.view(), name)};
}

/// What the rounding of float32 sums is measured by: one that cancels out to next to nothing is as far off as the rest.
inline double largest(std::span<const float> values) {
  double found = 0;
  for (const float value : values) found = std::max(found, std::abs(static_cast<double>(value)));
  return found;
}

/// The larger of two errors. NaN counts as the largest; std::max would drop it.
inline double worse(double worst, double error) {
  return std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
}

/// Every row of `mixture` is >= 0 and sums to 1.
inline void expect_convex(const Matrix& mixture) {
  for (std::size_t r = 0; r < mixture.rows(); ++r) {
    double sum = 0;
    for (const float weight : mixture.row(r)) {
      EXPECT_GE(weight, 0);
      sum += weight;
    }
    EXPECT_NEAR(sum, 1, 1e-5);
  }
}

}  // namespace kedge::test
