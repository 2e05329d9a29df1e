// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace kedge::test {

/// Roughly normal values that follow from the seed; the standard library's own are slow for matrices of a GPU's size.
[[nodiscard]] Matrix quick_random(std::size_t rows, std::size_t cols, std::uint64_t seed);

/// Batch rows, anchors, dimension and support rows, as the objective has them.
struct Sizes {
  std::size_t n = 0, m = 0, d = 0, k = 0;
};
/// "n 5, d 3" for the letters "nd".
[[nodiscard]] std::string describe(const Sizes& sizes, std::string_view letters = "nmdk");

/// How a matrix lies in its memory: unused columns on either side. Packed rows may be read in wide words, others not.
struct Layout {
  std::size_t before = 0, after = 0;
};
constexpr Layout kPacked{0, 0}, kLoose{2, 3};

/// Matrices of a case by name, filled at random and the same for every backend; lengths and cosines are made plausible.
class Buffers {
 public:
  Buffers(Backend& backend, Layout layout) : backend_(backend), layout_(layout) {}
  Panel operator()(const std::string& name, std::size_t rows, std::size_t cols);

  struct Output {
    Matrix values;
    double start = 0;  ///< the largest value before the operation
  };
  /// Throws Error(Code::failed) if something was written beside a matrix.
  [[nodiscard]] std::map<std::string, Output> read();

 private:
  struct Buffer {
    std::unique_ptr<Tensor> tensor;
    std::size_t cols = 0;
    double start = 0;
  };
  Backend& backend_;
  Layout layout_;
  std::map<std::string, Buffer> buffers_;
};
using Outputs = std::map<std::string, Buffers::Output>;

/// One operation of a backend, called the ways the library calls it.
struct OperationCase {
  const char* name;
  const char* sizes;  ///< letters of the sizes it depends on; their product is about the work there is
  std::function<void(Backend&, Buffers&, const Sizes&)> run;
  bool rounds = false;                  ///< it multiplies matrices in the backend's precision, not always in float32
  std::size_t Sizes::*inner = nullptr;  ///< how many random products its results add up, if they do
};
[[nodiscard]] const std::vector<OperationCase>& operation_cases();
[[nodiscard]] double work(const OperationCase& operation, const Sizes& sizes);

/// All matrices of the case, after it.
[[nodiscard]] Outputs run_case(const OperationCase& operation, Backend& on, const Sizes& sizes, Layout layout);

struct Difference {
  double error = 0;    ///< relative to the largest value wanted in that matrix; NaN counts as infinite
  std::string buffer;  ///< where
};
/// `least` is what a value is worth comparing with: one sum of products may come out near 0 by chance, its error not.
[[nodiscard]] Difference largest_difference(const Outputs& found, const Outputs& wanted, double least = 0);
/// Such a sum's size, square root of how many.
[[nodiscard]] double typical_value(const OperationCase& operation, const Sizes& sizes);

}  // namespace kedge::test
