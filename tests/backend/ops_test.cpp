// SPDX-License-Identifier: Apache-2.0
// Every operation of every backend against the plain loops: one row each in the table of cases.
#include "backend/reference_backend.h"
#include "support.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

namespace kedge {
namespace {

using test::random_matrix;

struct Sizes {
  std::size_t n = 0, m = 0, d = 0, k = 0;
};

/// Matrices of a case by name, filled at random and the same for every backend; lengths and mixtures are made
/// plausible.
class Buffers {
 public:
  explicit Buffers(Backend& backend) : backend_(backend) {}
  Panel operator()(const std::string& name, std::size_t rows, std::size_t cols) {
    auto& tensor = tensors_[name];
    if (!tensor) {
      tensor = backend_.make(rows, cols + 3);  // rows are not packed
      Matrix values = random_matrix(rows, cols, static_cast<unsigned>(std::hash<std::string>{}(name) % 1000));
      if (name.ends_with("lengths") || name == "v")
        std::ranges::for_each(values.cells(), [](float& x) { x = std::abs(x); });
      if (name == "cosines") std::ranges::for_each(values.cells(), [](float& x) { x = std::tanh(x); });
      backend_.upload(values.view(), tensor->panel().columns(0, cols));
    }
    return tensor->panel().columns(0, cols);
  }
  [[nodiscard]] std::map<std::string, Matrix> read() {
    std::map<std::string, Matrix> all;
    for (auto& [name, tensor] : tensors_) {
      Matrix host(tensor->panel().rows, tensor->panel().cols);
      backend_.download(tensor->panel(), host.view());
      all.emplace(name, std::move(host));
    }
    return all;
  }

 private:
  Backend& backend_;
  std::map<std::string, std::unique_ptr<Tensor>> tensors_;
};

struct Case {
  const char* name;
  std::function<void(Backend&, Buffers&, const Sizes&)> run;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"fill", [](Backend& on, Buffers& b, const Sizes& s) { on.fill(b("x", s.n, s.d), 2.5F); }},
      {"gather_rows",
       [](Backend& on, Buffers& b, const Sizes& s) {
         const std::vector<std::uint32_t> ids(s.n, static_cast<std::uint32_t>(s.k / 2));
         on.gather_rows(b("x", s.k, s.d), ids, b("y", s.n, s.d));
       }},
      {"gemm_nn", [](Backend& on, Buffers& b,
                     const Sizes& s) { on.gemm_nn(1, b("p", s.m, s.k), b("s", s.k, s.d), 0, b("a", s.m, s.d)); }},
      {"gemm_nt", [](Backend& on, Buffers& b,
                     const Sizes& s) { on.gemm_nt(0.5F, b("x", s.n, s.d), b("a", s.m, s.d), 2, b("r", s.n, s.m)); }},
      {"gemm_tn", [](Backend& on, Buffers& b,
                     const Sizes& s) { on.gemm_tn(1, b("r", s.n, s.m), b("x", s.n, s.d), 1, b("a", s.m, s.d)); }},
      {"gram", [](Backend& on, Buffers& b, const Sizes& s) { on.gram(b("a", s.m, s.d), b("g", s.m, s.m)); }},
      {"row_lengths",
       [](Backend& on, Buffers& b, const Sizes& s) { on.row_lengths(b("x", s.n, s.d), b("lengths", s.n, 1)); }},
      {"normalize_rows",
       [](Backend& on, Buffers& b, const Sizes& s) {
         on.fill(b("x", s.n, s.d).top_rows(1), 0);
         on.normalize_rows(b("x", s.n, s.d), b("unit", s.n, s.d), b("lengths", s.n, 1));
       }},
      {"normalize_rows_backward",
       [](Backend& on, Buffers& b, const Sizes& s) {
         on.fill(b("x", s.n, s.d).top_rows(1), 0);
         on.normalize_rows(b("x", s.n, s.d), b("unit", s.n, s.d), b("lengths", s.n, 1));
         on.normalize_rows_backward(b("unit", s.n, s.d), b("lengths", s.n, 1), b("dunit", s.n, s.d), 1,
                                    b("dx", s.n, s.d));
         on.normalize_rows_backward(b("unit", s.n, s.d), b("lengths", s.n, 1), b("dunit", s.n, s.d), 0,
                                    b("dy", s.n, s.d));
       }},
      {"coverage",
       [](Backend& on, Buffers& b, const Sizes& s) {
         on.coverage(b("r", s.n, s.m), b("x lengths", s.n, 1), b("a lengths", s.m, 1), 2.7F, {0.01F, 11},
                     b("dr", s.n, s.m), b("pull", s.m, 1), b("loss", 1, 1));
         on.coverage(b("r", s.n, s.m), b("x lengths", s.n, 1), b("a lengths", s.m, 1), 0.1F, {0.01F, 11},
                     b("r", s.n, s.m), b("pull", s.m, 1), b("loss", 1, 1));
       }},
      {"pull_anchors",
       [](Backend& on, Buffers& b, const Sizes& s) {
         on.row_lengths(b("a", s.m, s.d), b("lengths", s.m, 1));
         on.pull_anchors(b("a", s.m, s.d), b("lengths", s.m, 1), b("pull", s.m, 1), {0.5F, 1.2F}, b("da", s.m, s.d),
                         b("loss", 1, 1));
       }},
      {"orthogonality",
       [](Backend& on, Buffers& b, const Sizes& s) {
         on.normalize_rows(b("a", s.m, s.d), b("unit", s.m, s.d), b("lengths", s.m, 1));
         on.gram(b("unit", s.m, s.d), b("g", s.m, s.m));
         on.orthogonality(b("g", s.m, s.m), 0.3F, b("loss", 1, 1));
       }},
      {"symmetric_nce",
       [](Backend& on, Buffers& b, const Sizes& s) {
         on.symmetric_nce(b("cosines", s.n, s.n), 0.1F, {0.4F, 0.7F}, b("loss", 1, 1));
         on.symmetric_nce(b("cosines", s.n, s.n), Backend::kLeastTau, {1, 1}, b("loss", 1, 1));
       }},
      {"softmax_rows",
       [](Backend& on, Buffers& b, const Sizes& s) { on.softmax_rows(b("q", s.m, s.k), 2.9F, b("p", s.m, s.k)); }},
      {"step_logits",
       [](Backend& on, Buffers& b, const Sizes& s) {
         on.softmax_rows(b("q", s.m, s.k), 2.9F, b("p", s.m, s.k));
         on.step_logits(b("dp", s.m, s.k), 2.9F, {0.03F, 0.9F, 0.999F, 1e-8F, 0.01F, 3}, b("q", s.m, s.k),
                        b("moment", s.m, s.k), b("v", s.m, s.k), b("p", s.m, s.k));
       }},
      {"step_values",
       [](Backend& on, Buffers& b, const Sizes& s) {
         on.step_values(b("dp", s.m, s.k), {0.03F, 0.9F, 0.999F, 1e-8F, 0.01F, 3}, b("q", s.m, s.k),
                        b("moment", s.m, s.k), b("v", s.m, s.k));
       }},
  };
  return all;
}

class EveryOperation : public ::testing::TestWithParam<Case> {};

/// The largest difference, relative to the largest value there is.
double relative_error(const Matrix& found, const Matrix& wanted) {
  double difference = 0;
  double scale = 1e-30;
  for (std::size_t i = 0; i < wanted.cells().size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(found.cells()[i]) - wanted.cells()[i]));
    scale = std::max(scale, std::abs(static_cast<double>(wanted.cells()[i])));
  }
  return difference / scale;
}

TEST_P(EveryOperation, AgreesWithThePlainLoop) {
  for (const Sizes sizes : {Sizes{1, 1, 7, 33}, Sizes{5, 9, 3, 33}, Sizes{131, 65, 40, 70}, Sizes{200, 300, 17, 513}}) {
    const auto reference = test::make_reference_backend();
    const auto cpu = make_cpu_backend();
    Buffers wanted(*reference);
    Buffers found(*cpu);
    GetParam().run(*reference, wanted, sizes);
    GetParam().run(*cpu, found, sizes);
    const auto values = found.read();
    for (const auto& [name, matrix] : wanted.read()) {
      EXPECT_LT(relative_error(values.at(name), matrix), 1e-5) << name << " at n " << sizes.n << ", m " << sizes.m;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, EveryOperation, ::testing::ValuesIn(cases()),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace kedge
