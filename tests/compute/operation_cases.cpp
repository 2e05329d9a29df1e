// SPDX-License-Identifier: Apache-2.0
#include "compute/operation_cases.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace kedge::test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

double largest(std::span<const float> values) {
  double found = 0;
  for (const float value : values) found = std::max(found, std::abs(static_cast<double>(value)));
  return found;
}

std::uint64_t seed_of(std::string_view name) {
  std::uint64_t mark = 0xcbf29ce484222325ULL;  // FNV-1a
  for (const char letter : name) mark = (mark ^ static_cast<std::uint64_t>(letter)) * 0x100000001b3ULL;
  return mark;
}

std::unique_ptr<Integers> counter(Backend& on, std::uint32_t value) {
  auto taken = on.make_integers(1);
  on.upload(std::vector{value}, *taken);
  return taken;
}

AdamStep adam(Integers& number) {
  return {0.03F, 0.9F, 0.999F, 1e-8F, 0.01F, number.data()};
}

void gather_rows(Backend& on, Buffers& b, const Sizes& s) {
  const auto ids = on.make_integers(3 * s.n);
  std::vector<std::uint32_t> rows(3 * s.n);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::uint32_t>(i * 7 % s.k);
  on.upload(rows, *ids);
  const auto turn = counter(on, 4);
  on.gather_rows(b("x", s.k, s.d), {ids->data(), s.n}, b("y", s.n, s.d));
  on.gather_rows(b("x", s.k, s.d), {ids->data(), s.n, turn->data(), 3}, b("z", s.n, s.d));
}

void gemm_nn(Backend& on, Buffers& b, const Sizes& s) {
  on.fill(b("a", s.m, s.d), kNan);  // with a beta of 0 nobody may look at it
  on.gemm_nn(1, b("p", s.m, s.k), b("s", s.k, s.d), 0, b("a", s.m, s.d));
}

void gemm_nt(Backend& on, Buffers& b, const Sizes& s) {
  on.gemm_nt(0.5F, b("x", s.n, s.d), b("a", s.m, s.d), 2, b("r", s.n, s.m));
}

void gemm_tn(Backend& on, Buffers& b, const Sizes& s) {
  on.gemm_tn(1, b("r", s.n, s.m), b("x", s.n, s.d), 1, b("a", s.m, s.d));
}

template <bool exact>
void affine(Backend& on, Buffers& b, const Sizes& s) {
  on.fill(b("y", s.n, s.m), kNan);
  on.affine(b("x", s.n, s.d), b("w", s.m, s.d), b("b", 1, s.m), exact, b("y", s.n, s.m));
}

void normalize_rows(Backend& on, Buffers& b, const Sizes& s) {
  if (s.n > 1) on.fill(b("x", s.n, s.d).top_rows(1), 0);
  on.normalize_rows(b("x", s.n, s.d), b("unit", s.n, s.d), b("lengths", s.n, 1));
  on.normalize_rows(b("y", s.n, s.d), b("other unit", s.n, s.d), b("other lengths", s.n, 1), b("again", s.n, s.d));
}

void normalize_rows_backward(Backend& on, Buffers& b, const Sizes& s) {
  normalize_rows(on, b, s);
  on.fill(b("dy", s.n, s.d), kNan);
  on.normalize_rows_backward(b("unit", s.n, s.d), b("lengths", s.n, 1), b("dunit", s.n, s.d), 1, b("dx", s.n, s.d));
  on.normalize_rows_backward(b("unit", s.n, s.d), b("lengths", s.n, 1), b("dunit", s.n, s.d), 0, b("dy", s.n, s.d));
}

void coverage(Backend& on, Buffers& b, const Sizes& s) {
  on.coverage(b("r", s.n, s.m), b("x lengths", s.n, 1), b("a lengths", s.m, 1), 2.7F, {0.01F, 11}, b("dr", s.n, s.m),
              b("pull", s.m, 1), b("loss", 1, 1));
  on.coverage(b("r", s.n, s.m), b("x lengths", s.n, 1), b("a lengths", s.m, 1), 0.5F, {0.01F, 11}, b("r", s.n, s.m),
              b("pull", s.m, 1), b("loss", 1, 1));
}

void pull_rows(Backend& on, Buffers& b, const Sizes& s) {
  if (s.m > 1) on.fill(b("a", s.m, s.d).top_rows(1), 0);
  on.row_lengths(b("a", s.m, s.d), b("lengths", s.m, 1));
  on.pull_rows(b("a", s.m, s.d), b("lengths", s.m, 1), b("pull", s.m, 1), {0.5F, 1.2F}, b("da", s.m, s.d),
               b("loss", 1, 1));
}

void orthogonality(Backend& on, Buffers& b, const Sizes& s) {
  on.fill(b("loss", 1, 1), 1e-3F);  // a larger one would hide what is added
  if (s.m > 1) on.fill(b("a", s.m, s.d).top_rows(1), 0);
  on.normalize_rows(b("a", s.m, s.d), b("unit", s.m, s.d), b("lengths", s.m, 1));
  on.gram(b("unit", s.m, s.d), b("g", s.m, s.m));
  on.orthogonality(b("g", s.m, s.m), 0.3F, b("loss", 1, 1));
}

void packed(Backend& on, Buffers& b, const Sizes& s) {
  const auto support = on.pack(b("s", s.k, s.d));
  on.packed_nn(b("p", s.m, s.k), *support, b("a", s.m, s.d));
  on.packed_nt(b("da", s.m, s.d), *support, b("dp", s.m, s.k));
}

/// As training has it: what softmax_rows and step_logits write is multiplied.
void mixture(Backend& on, Buffers& b, const Sizes& s) {
  const auto support = on.pack(b("s", s.k, s.d));
  const auto mixture = on.make_softmax(s.m, s.k);
  const auto number = counter(on, 3);
  on.softmax_rows(b("q", s.m, s.k), 0.5F, mixture->panel());
  on.packed_nn(mixture->panel(), *support, b("a", s.m, s.d));
  on.step_logits(b("dp", s.m, s.k), b("inner", s.m, 1), 0.5F, adam(*number), b("q", s.m, s.k), b("moment", s.m, s.k),
                 b("v", s.m, s.k), mixture->panel());
  on.packed_nn(mixture->panel(), *support, b("next a", s.m, s.d));
}

void symmetric_nce(Backend& on, Buffers& b, const Sizes& s) {
  on.symmetric_nce(b("cosines", s.n, s.n), b("turned cosines", s.n, s.n), 0.1F, {0.4F, 0.7F}, b("loss", 1, 1));
  on.symmetric_nce(b("more cosines", s.n, s.n), b("more turned cosines", s.n, s.n), Backend::kLeastTau, {1, 1},
                   b("more loss", 1, 1));
}

void step_logits(Backend& on, Buffers& b, const Sizes& s) {
  const auto number = counter(on, 3);
  on.softmax_rows(b("q", s.m, s.k), 2.9F, b("p", s.m, s.k));
  on.step_logits(b("dp", s.m, s.k), b("inner", s.m, 1), 2.9F, adam(*number), b("q", s.m, s.k), b("moment", s.m, s.k),
                 b("v", s.m, s.k), b("p", s.m, s.k));
}

void step_values(Backend& on, Buffers& b, const Sizes& s) {
  const auto number = counter(on, 3);
  on.step_values(b("dp", s.m, s.k), adam(*number), b("q", s.m, s.k), b("moment", s.m, s.k), b("v", s.m, s.k));
}

void end_step(Backend& on, Buffers& b, const Sizes& s) {
  const auto taken = counter(on, 5);
  on.end_step(b("losses", 1, 9), b("log", s.m + 1, 9), *taken);
  on.end_step(b("more", 1, 9), b("log", s.m + 1, 9), *taken);
}

}  // namespace

Matrix quick_random(std::size_t rows, std::size_t cols, std::uint64_t seed) {
  Matrix matrix(rows, cols);
  std::uint64_t state = seed;
  for (float& cell : matrix.cells()) {
    std::uint64_t bits = state += 0x9e3779b97f4a7c15ULL;  // splitmix64
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
    bits ^= bits >> 31;
    const std::uint64_t sum = (bits & 0xffff) + ((bits >> 16) & 0xffff) + ((bits >> 32) & 0xffff) + (bits >> 48);
    cell = (static_cast<float>(sum) - 131070.F) * 2.64296e-5F;  // four uniform ones, made of variance 1
  }
  return matrix;
}

std::string describe(const Sizes& sizes, std::string_view letters) {
  std::string text;
  for (const auto& [letter, size] :
       {std::pair{'n', sizes.n}, std::pair{'m', sizes.m}, std::pair{'d', sizes.d}, std::pair{'k', sizes.k}}) {
    if (letters.find(letter) == std::string_view::npos) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", letter, size);
  }
  return text;
}

Panel Buffers::operator()(const std::string& name, std::size_t rows, std::size_t cols) {
  Buffer& buffer = buffers_[name];
  if (!buffer.tensor) {
    buffer = {backend_.make(rows, layout_.before + cols + layout_.after), cols, 0};
    Matrix values = quick_random(rows, cols, seed_of(name));
    if (name.ends_with("lengths")) std::ranges::for_each(values.cells(), [](float& x) { x = std::abs(x); });
    // Adam divides by its root: next to zero, the last bit of it would decide.
    if (name == "v") std::ranges::for_each(values.cells(), [](float& x) { x = 0.1F + std::abs(x); });
    if (name.ends_with("cosines")) std::ranges::for_each(values.cells(), [](float& x) { x = std::tanh(x); });
    buffer.start = largest(values.cells());
    backend_.upload(values.view(), buffer.tensor->panel().columns(layout_.before, cols));
  }
  return buffer.tensor->panel().columns(layout_.before, cols);
}

std::map<std::string, Buffers::Output> Buffers::read() {
  std::map<std::string, Output> all;
  for (auto& [name, buffer] : buffers_) {
    const Panel whole = buffer.tensor->panel();
    Matrix host(whole.rows, whole.cols);
    backend_.download(whole, host.view());
    Output& output = all[name] = {Matrix(whole.rows, buffer.cols), buffer.start};
    for (std::size_t r = 0; r < whole.rows; ++r) {
      const std::span<float> row = host.row(r);
      std::ranges::copy(row.subspan(layout_.before, buffer.cols), output.values.row(r).begin());
      std::ranges::fill(row.subspan(layout_.before, buffer.cols), 0.F);
      if (largest(row) != 0) throw Error(Code::failed, "something was written beside '" + name + "'");
    }
  }
  return all;
}

const std::vector<OperationCase>& operation_cases() {
  static const std::vector<OperationCase> all = {
      {"fill", "nd", [](Backend& on, Buffers& b, const Sizes& s) { on.fill(b("x", s.n, s.d), 2.5F); }},
      {"gather_rows", "ndk", gather_rows},
      {"gemm_nn", "mdk", gemm_nn, true, &Sizes::k},
      {"gemm_nt", "nmd", gemm_nt, true, &Sizes::d},
      {"gemm_tn", "nmd", gemm_tn, true, &Sizes::n},
      {"gram", "mmd", [](Backend& on, Buffers& b, const Sizes& s) { on.gram(b("a", s.m, s.d), b("g", s.m, s.m)); },
       true},
      {"packed", "mdk", packed, true, &Sizes::d},
      {"mixture", "mdk", mixture, true},
      {"affine", "nmd", affine<false>, true, &Sizes::d},
      {"affine_exact", "nmd", affine<true>, false, &Sizes::d},
      {"row_lengths", "nd",
       [](Backend& on, Buffers& b, const Sizes& s) { on.row_lengths(b("x", s.n, s.d), b("lengths", s.n, 1)); }},
      {"row_dots", "nd",
       [](Backend& on, Buffers& b, const Sizes& s) {
         on.row_dots(b("x", s.n, s.d), b("y", s.n, s.d), b("dots", s.n, 1));
       },
       false, &Sizes::d},
      {"normalize_rows", "nd", normalize_rows},
      {"normalize_rows_backward", "nd", normalize_rows_backward},
      {"coverage", "nm", coverage},
      {"pull_rows", "md", pull_rows},
      {"orthogonality", "mmd", orthogonality, true},
      {"symmetric_nce", "nn", symmetric_nce},
      {"softmax_rows", "mk",
       [](Backend& on, Buffers& b, const Sizes& s) { on.softmax_rows(b("q", s.m, s.k), 2.9F, b("p", s.m, s.k)); }},
      {"step_logits", "mk", step_logits},
      {"step_values", "mk", step_values},
      {"end_step", "m", end_step},
  };
  return all;
}

double work(const OperationCase& operation, const Sizes& sizes) {
  double product = 1;
  for (const char letter : std::string_view(operation.sizes)) {
    const std::size_t size = letter == 'n' ? sizes.n : letter == 'm' ? sizes.m : letter == 'd' ? sizes.d : sizes.k;
    product *= static_cast<double>(size);
  }
  return product;
}

double typical_value(const OperationCase& operation, const Sizes& sizes) {
  return operation.inner == nullptr ? 0 : std::sqrt(static_cast<double>(sizes.*operation.inner));
}

Outputs run_case(const OperationCase& operation, Backend& on, const Sizes& sizes, Layout layout) {
  Buffers buffers(on, layout);
  operation.run(on, buffers, sizes);
  return buffers.read();
}

Difference largest_difference(const Outputs& found, const Outputs& wanted, double least) {
  Difference worst;
  for (const auto& [name, output] : wanted) {
    const auto right = output.values.cells();
    const auto there = found.at(name).values.cells();
    double difference = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      const double off = std::abs(static_cast<double>(there[i]) - right[i]);
      difference = std::isnan(off) ? std::numeric_limits<double>::infinity() : std::max(difference, off);
    }
    // Where nothing but zeros is right, terms as large as the input cancel out.
    double scale = std::max(least, largest(right));
    if (scale == 0) scale = output.start == 0 ? 1 : output.start;
    if (difference / scale >= worst.error) worst = {difference / scale, name};
  }
  return worst;
}

}  // namespace kedge::test
