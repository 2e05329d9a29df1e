// SPDX-License-Identifier: Apache-2.0
#include "compute/reference_backend.h"

#include <cmath>
#include <vector>

namespace kedge::test {
namespace {

template <class T>
T& at(BasicPanel<T> p, std::size_t r, std::size_t c = 0) {
  return p.data[r * p.stride + c];
}

std::vector<double> softmax(const std::vector<double>& x) {
  double largest = x[0];
  for (const double v : x) largest = std::max(largest, v);
  double sum = 0;
  for (const double v : x) sum += std::exp(v - largest);
  std::vector<double> p;
  for (const double v : x) p.push_back(std::exp(v - largest) / sum);
  return p;
}

class ReferenceBackend final : public Backend {
 public:
  std::unique_ptr<Tensor> make(std::size_t rows, std::size_t cols) override { return memory_->make(rows, cols); }
  std::unique_ptr<Integers> make_integers(std::size_t count) override { return memory_->make_integers(count); }
  void upload(std::span<const std::uint32_t> from, Integers& to) override { memory_->upload(from, to); }
  void upload(MatrixView<const float> from, Panel to) override { memory_->upload(from, to); }
  void download(ConstPanel from, MatrixView<float> to) override { memory_->download(from, to); }
  void fill(Panel x, float value) override {
    each(x, [&](std::size_t, std::size_t) { return value; });
  }
  void gather_rows(ConstPanel from, Ids ids, Panel to) override {
    const std::size_t batch = ids.turn == nullptr ? 0 : *ids.turn % ids.batches;
    each(to, [&](std::size_t r, std::size_t c) { return at(from, ids.data[batch * ids.count + r], c); });
  }

  void gemm_nn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    product(
        a.cols, alpha, beta, c, [&](std::size_t i, std::size_t k) { return at(a, i, k); },
        [&](std::size_t k, std::size_t j) { return at(b, k, j); });
  }
  void gemm_nt(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    product(
        a.cols, alpha, beta, c, [&](std::size_t i, std::size_t k) { return at(a, i, k); },
        [&](std::size_t k, std::size_t j) { return at(b, j, k); });
  }
  void gemm_tn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    product(
        a.rows, alpha, beta, c, [&](std::size_t i, std::size_t k) { return at(a, k, i); },
        [&](std::size_t k, std::size_t j) { return at(b, k, j); });
  }
  void gram(ConstPanel a, Panel c) override { gemm_nt(1, a, a, 0, c); }
  void affine(ConstPanel x, ConstPanel w, ConstPanel b, bool, Panel y) override {
    each(y, [&](std::size_t, std::size_t c) { return at(b, 0, c); });
    gemm_nt(1, x, w, 1, y);
  }

  void row_lengths(ConstPanel x, Panel lengths) override {
    for (std::size_t r = 0; r < x.rows; ++r) at(lengths, r) = static_cast<float>(length(x, r));
  }
  void row_dots(ConstPanel x, ConstPanel y, Panel dots) override {
    for (std::size_t r = 0; r < x.rows; ++r) at(dots, r) = static_cast<float>(dot(x, y, r));
  }
  void normalize_rows(ConstPanel x, Panel unit, Panel lengths, Panel again) override {
    row_lengths(x, lengths);
    for (std::size_t r = 0; r < x.rows; ++r) {
      const double l = length(x, r);
      for (std::size_t c = 0; c < x.cols; ++c) {
        at(unit, r, c) = l > 0 ? static_cast<float>(at(x, r, c) / l) : 0;
        if (again.data != nullptr) at(again, r, c) = at(unit, r, c);
      }
    }
  }
  void normalize_rows_backward(ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta, Panel dx) override {
    for (std::size_t r = 0; r < unit.rows; ++r) {
      const double along = dot(unit, dunit, r);
      for (std::size_t c = 0; c < unit.cols; ++c) {
        const double added = at(lengths, r) > 0 ? (at(dunit, r, c) - at(unit, r, c) * along) / at(lengths, r) : 0;
        at(dx, r, c) = static_cast<float>((beta == 0 ? 0 : beta * at(dx, r, c)) + added);
      }
    }
  }

  void coverage(ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau, Weighted w, Panel dr, Panel pull,
                Panel loss) override {
    const double scale = static_cast<double>(w.share) * w.weight;
    double total = 0;
    for (std::size_t i = 0; i < r.rows; ++i) {
      std::vector<double> distance;
      std::vector<double> logits;
      for (std::size_t a = 0; a < r.cols; ++a) {
        distance.push_back(square(at(x_lengths, i)) + square(at(a_lengths, a)) - 2.0 * at(r, i, a));
        logits.push_back(-distance.back() / tau);
      }
      const std::vector<double> q = softmax(logits);
      double expected = 0;
      for (std::size_t a = 0; a < r.cols; ++a) expected += q[a] * distance[a];
      total += expected;
      for (std::size_t a = 0; a < r.cols; ++a) {
        const double g = scale * q[a] * (1 - (distance[a] - expected) / tau);  // dL/dD
        at(dr, i, a) = static_cast<float>(-2 * g);
        at(pull, a) += static_cast<float>(2 * g);
      }
    }
    at(loss, 0) += static_cast<float>(w.share * total);
  }
  void pull_rows(ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted w, Panel da, Panel loss) override {
    const auto anchors = static_cast<double>(a.rows);
    for (std::size_t r = 0; r < a.rows; ++r) {
      const double l = at(lengths, r);
      at(loss, 0) += static_cast<float>(w.share * square(l - 1) / anchors);
      const double by_length = l > 0 ? static_cast<double>(w.share) * w.weight * 2 * (l - 1) / anchors / l : 0;
      for (std::size_t c = 0; c < a.cols; ++c)
        at(da, r, c) += static_cast<float>((at(pull, r) + by_length) * at(a, r, c));
    }
  }
  void orthogonality(ConstPanel gram, float share, Panel loss) override {
    if (gram.rows < 2) return;
    double sum = 0;
    for (std::size_t r = 0; r < gram.rows; ++r) {
      for (std::size_t c = 0; c < gram.rows; ++c) sum += square(at(gram, r, c)) - (r == c ? 1 : 0);
    }
    at(loss, 0) += static_cast<float>(share * sum / static_cast<double>(gram.rows * (gram.rows - 1)));
  }
  void symmetric_nce(Panel cosines, Panel turned, float tau, Weighted w, Panel loss) override {
    const std::size_t n = cosines.rows;
    std::vector<std::vector<double>> by_row(n), by_column(n);
    for (std::size_t i = 0; i < n; ++i) {
      std::vector<double> row, column;
      for (std::size_t j = 0; j < n; ++j) {
        row.push_back(at(cosines, i, j) / static_cast<double>(tau));
        column.push_back(at(cosines, j, i) / static_cast<double>(tau));
      }
      by_row[i] = softmax(row);
      by_column[i] = softmax(column);
    }
    double total = 0;
    const double each_pair = 0.5 / static_cast<double>(n);
    for (std::size_t i = 0; i < n; ++i) {
      total -= each_pair * (std::log(by_row[i][i]) + std::log(by_column[i][i]));
      for (std::size_t j = 0; j < n; ++j) {
        const double right = i == j ? 1 : 0;
        const double gradient = each_pair * (by_row[i][j] - right + by_column[j][i] - right) / tau;
        at(cosines, i, j) = at(turned, j, i) = static_cast<float>(gradient * w.share * w.weight);
      }
    }
    at(loss, 0) += static_cast<float>(w.share * total);
  }

  void softmax_rows(ConstPanel logits, float temperature, Panel mixture) override {
    for (std::size_t r = 0; r < logits.rows; ++r) {
      std::vector<double> row;
      for (std::size_t c = 0; c < logits.cols; ++c) row.push_back(at(logits, r, c) / static_cast<double>(temperature));
      row = softmax(row);
      for (std::size_t c = 0; c < logits.cols; ++c) at(mixture, r, c) = static_cast<float>(row[c]);
    }
  }
  void step_logits(ConstPanel dmixture, ConstPanel inner, float temperature, const AdamStep& adam, Panel logits,
                   Panel first_moment, Panel second_moment, Panel mixture) override {
    for (std::size_t r = 0; r < logits.rows; ++r) {
      for (std::size_t c = 0; c < logits.cols; ++c) {
        const double change = static_cast<double>(at(dmixture, r, c)) - at(inner, r);
        const double gradient = at(mixture, r, c) * change / temperature;
        move(adam, gradient, at(logits, r, c), at(first_moment, r, c), at(second_moment, r, c));
      }
    }
    softmax_rows(logits, temperature, mixture);
  }
  void step_values(ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                   Panel second_moment) override {
    for (std::size_t r = 0; r < values.rows; ++r) {
      for (std::size_t c = 0; c < values.cols; ++c) {
        move(adam, at(dvalues, r, c), at(values, r, c), at(first_moment, r, c), at(second_moment, r, c));
      }
    }
  }
  void end_step(Panel losses, Panel log, Integers& taken) override {
    for (std::size_t c = 0; c < losses.cols; ++c) {
      at(log, *taken.data() % log.rows, c) = at(losses, 0, c);
      at(losses, 0, c) = 0;
    }
    ++*taken.data();
  }

 private:
  static void move(const AdamStep& adam, double gradient, float& value, float& first, float& second) {
    const auto step = static_cast<double>(*adam.number);
    const double m = adam.beta1 * static_cast<double>(first) + (1.0 - adam.beta1) * gradient;
    const double v = adam.beta2 * static_cast<double>(second) + (1.0 - adam.beta2) * gradient * gradient;
    first = static_cast<float>(m);
    second = static_cast<float>(v);
    const double m_hat = m / (1 - std::pow(static_cast<double>(adam.beta1), step));
    const double v_hat = v / (1 - std::pow(static_cast<double>(adam.beta2), step));
    const double kept = value * (1 - static_cast<double>(adam.learning_rate) * adam.weight_decay);
    value = static_cast<float>(kept - adam.learning_rate * m_hat / (std::sqrt(v_hat) + adam.epsilon));
  }
  template <class Value>
  static void each(Panel p, const Value& value) {
    for (std::size_t r = 0; r < p.rows; ++r) {
      for (std::size_t c = 0; c < p.cols; ++c) at(p, r, c) = static_cast<float>(value(r, c));
    }
  }
  template <class A, class B>
  static void product(std::size_t inner, float alpha, float beta, Panel c, const A& a, const B& b) {
    each(c, [&](std::size_t i, std::size_t j) {
      double sum = 0;
      for (std::size_t k = 0; k < inner; ++k) sum += static_cast<double>(a(i, k)) * b(k, j);
      return alpha * sum + (beta == 0 ? 0 : beta * at(c, i, j));
    });
  }
  static double square(double x) { return x * x; }
  static double dot(ConstPanel x, ConstPanel y, std::size_t r) {
    double sum = 0;
    for (std::size_t c = 0; c < x.cols; ++c) sum += static_cast<double>(at(x, r, c)) * at(y, r, c);
    return sum;
  }
  static double length(ConstPanel x, std::size_t r) { return std::sqrt(dot(x, x, r)); }

  std::unique_ptr<Backend> memory_ = make_cpu_backend();
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace kedge::test
