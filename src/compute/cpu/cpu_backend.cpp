// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "compute/backend.h"
#include "compute/cpu/gemm.h"
#include "compute/cpu/kernels.h"
#include "compute/cpu/rows.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace kedge {
namespace {

template <class T>
MatrixView<T> view(BasicPanel<T> p) {
  return {p.data, p.rows, p.cols, p.stride};
}

class HostTensor final : public Tensor {
 public:
  HostTensor(std::size_t rows, std::size_t cols) : cells_(rows, cols) {}
  Panel panel() override { return {cells_.cells().data(), cells_.rows(), cells_.cols(), cells_.cols()}; }

 private:
  Matrix cells_;
};

class HostIntegers final : public Integers {
 public:
  explicit HostIntegers(std::size_t count) : cells_(count) {}
  std::uint32_t* data() override { return cells_.data(); }

 private:
  std::vector<std::uint32_t> cells_;
};

class CpuBackend final : public Backend {
 public:
  std::string name() const override { return "cpu"; }
  std::unique_ptr<Tensor> make(std::size_t rows, std::size_t cols) override {
    return std::make_unique<HostTensor>(rows, cols);
  }
  std::unique_ptr<Integers> make_integers(std::size_t count) override { return std::make_unique<HostIntegers>(count); }
  void upload(MatrixView<const float> from, Panel to) override { as_eigen(view(to)) = as_eigen(from); }
  void upload(std::span<const std::uint32_t> from, Integers& to) override { std::ranges::copy(from, to.data()); }
  void download(ConstPanel from, MatrixView<float> to) override { as_eigen(to) = as_eigen(view(from)); }
  void fill(Panel x, float value) override { as_eigen(view(x)).setConstant(value); }
  void gather_rows(ConstPanel from, Ids ids, Panel to) override {
    const std::uint32_t* rows = ids.turn == nullptr ? ids.data : ids.data + *ids.turn % ids.batches * ids.count;
    cpu::for_rows(to.rows, to.cols,
                  [&](std::size_t i) { std::ranges::copy(view(from).row(rows[i]), view(to).row(i).begin()); });
  }

  void gemm_nn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    cpu::gemm(CblasNoTrans, CblasNoTrans, a.cols, alpha, a, b, beta, c);
  }
  void gemm_nt(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    cpu::gemm(CblasNoTrans, CblasTrans, a.cols, alpha, a, b, beta, c);
  }
  void gemm_tn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    cpu::gemm(CblasTrans, CblasNoTrans, a.rows, alpha, a, b, beta, c);
  }
  void gram(ConstPanel a, Panel c) override { cpu::gram(a, c); }
  void affine(ConstPanel x, ConstPanel w, ConstPanel b, bool, Panel y) override {
    as_eigen(view(y)).rowwise() = as_eigen(view(b)).row(0);
    cpu::gemm(CblasNoTrans, CblasTrans, x.cols, 1, x, w, 1, y);
  }

  void row_lengths(ConstPanel x, Panel lengths) override {
    cpu::for_rows(x.rows, x.cols, [&](std::size_t i) { view(lengths).row(i)[0] = cpu::length(view(x).row(i)); });
  }
  void row_dots(ConstPanel x, ConstPanel y, Panel dots) override {
    cpu::for_rows(x.rows, x.cols,
                  [&](std::size_t i) { view(dots).row(i)[0] = cpu::dot(view(x).row(i), view(y).row(i)); });
  }
  void normalize_rows(ConstPanel x, Panel unit, Panel lengths, Panel again) override {
    cpu::for_rows(x.rows, x.cols, [&](std::size_t i) {
      float& length = view(lengths).row(i)[0];
      length = cpu::length(view(x).row(i));
      cpu::normalize(view(x).row(i), length, view(unit).row(i));
      if (again.data != nullptr) std::ranges::copy(view(unit).row(i), view(again).row(i).begin());
    });
  }
  void normalize_rows_backward(ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta, Panel dx) override {
    cpu::for_rows(unit.rows, unit.cols, [&](std::size_t i) {
      cpu::normalize_backward(view(unit).row(i), view(lengths).row(i)[0], view(dunit).row(i), beta, view(dx).row(i));
    });
  }

  void coverage(ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau, Weighted weighted, Panel dr,
                Panel pull, Panel loss) override {
    std::vector<float> lengths(r.cols);
    for (std::size_t a = 0; a < r.cols; ++a) lengths[a] = view(a_lengths).row(a)[0];
    const cpu::Parts parts(r.rows, r.cols);
    std::vector<std::vector<float>> sums(parts.count(), std::vector<float>(r.cols));
    auto scratch = sums;
    std::vector<double> losses(sums.size());
    const float scale = weighted.share * weighted.weight;
    parts.run([&](std::size_t part, std::size_t i) {
      losses[part] +=
          static_cast<double>(weighted.share) * cpu::coverage(view(r).row(i), view(x_lengths).row(i)[0], lengths, tau,
                                                              scale, view(dr).row(i), sums[part], scratch[part]);
    });
    // The products come with -2 and |a|^2 with +1, whose own gradient is 2 a: so the pull is the column sums turned
    // round.
    for (const auto& sum : sums) {
      for (std::size_t a = 0; a < r.cols; ++a) view(pull).row(a)[0] -= sum[a];
    }
    add(loss, losses);
  }
  void pull_rows(ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted weighted, Panel da, Panel loss) override {
    double total = 0;
    const float strength = 2 * weighted.share * weighted.weight / static_cast<float>(a.rows);
    for (std::size_t r = 0; r < a.rows; ++r) {
      const float length = view(lengths).row(r)[0];
      const float excess = length - 1;
      total += static_cast<double>(weighted.share * excess * excess) / static_cast<double>(a.rows);
      const float by_length = length > 0 ? strength * excess / length : 0;
      as_eigen(view(da).row(r)) += (view(pull).row(r)[0] + by_length) * as_eigen(view(a).row(r));
    }
    add(loss, {total});
  }
  void orthogonality(ConstPanel gram, float share, Panel loss) override {
    if (gram.rows < 2) return;
    const auto m = static_cast<double>(gram.rows);
    add(loss, {share * (as_eigen(view(gram)).cast<double>().squaredNorm() - m) / (m * (m - 1))});
  }

  void symmetric_nce(Panel cosines, Panel turned, float tau, Weighted weighted, Panel loss) override {
    const std::size_t n = cosines.rows;
    const cpu::Parts parts(n, n);
    std::vector<std::vector<float>> partial(parts.count(), std::vector<float>(n));
    std::vector<float> row_sums(n);
    std::vector<double> losses(partial.size());
    // exp((c - 1) / tau) serves rows and columns alike: cosines are at most 1, so it neither overflows nor, for the
    // temperatures allowed, vanishes.
    parts.run([&](std::size_t part, std::size_t i) {
      const auto row = view(cosines).row(i);
      losses[part] -= 2 * static_cast<double>(row[i] - 1) / tau;
      row_sums[i] = cpu::exponentials(row, tau, partial[part]);
    });
    std::vector<float> column_sums(n);
    for (const auto& sum : partial) as_eigen(std::span(column_sums)) += as_eigen(std::span(sum));
    for (std::size_t i = 0; i < n; ++i) {
      losses[0] += std::log(static_cast<double>(row_sums[i])) + std::log(static_cast<double>(column_sums[i]));
      column_sums[i] = 1 / column_sums[i];
    }
    for (double& value : losses) value *= weighted.share / (2 * static_cast<double>(n));
    add(loss, losses);
    const float step = weighted.share * weighted.weight / (2 * tau * static_cast<float>(n));
    cpu::for_rows(n, n, [&](std::size_t i) {
      const auto row = view(cosines).row(i);
      cpu::scale_exponentials(row, step, row_sums[i], column_sums);
      row[i] -= 2 * step;
    });
    turn(cosines, turned);
  }

  void softmax_rows(ConstPanel logits, float temperature, Panel softmax) override {
    cpu::for_rows(logits.rows, logits.cols,
                  [&](std::size_t i) { cpu::softmax(view(logits).row(i), temperature, view(softmax).row(i)); });
  }
  void step_logits(ConstPanel dsoftmax, ConstPanel inner, float temperature, const AdamStep& adam, Panel logits,
                   Panel first_moment, Panel second_moment, Panel softmax) override {
    cpu::for_rows(logits.rows, logits.cols, [&](std::size_t i) {
      cpu::step_logits(view(dsoftmax).row(i), view(inner).row(i)[0], temperature, adam, view(logits).row(i),
                       view(first_moment).row(i), view(second_moment).row(i), view(softmax).row(i));
    });
  }
  void step_values(ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                   Panel second_moment) override {
    cpu::for_rows(values.rows, values.cols, [&](std::size_t i) {
      cpu::step_values(view(dvalues).row(i), adam, view(values).row(i), view(first_moment).row(i),
                       view(second_moment).row(i));
    });
  }
  void end_step(Panel losses, Panel log, Integers& taken) override {
    std::ranges::copy(view(losses).row(0), view(log).row(*taken.data() % log.rows).begin());
    fill(losses, 0);
    ++*taken.data();
  }

 private:
  /// By way of a small tile: rows of a matrix are often as far apart as a cache cannot hold several of.
  static void turn(ConstPanel from, Panel to) {
    constexpr std::size_t kTile = 16;  // floats of a cache line
    cpu::for_rows((from.cols + kTile - 1) / kTile, from.rows * kTile, [&](std::size_t strip) {
      float tile[kTile][kTile];
      const std::size_t left = strip * kTile, width = std::min(kTile, from.cols - left);
      for (std::size_t top = 0; top < from.rows; top += kTile) {
        const std::size_t height = std::min(kTile, from.rows - top);
        for (std::size_t r = 0; r < height; ++r) {
          const float* row = from.data + (top + r) * from.stride + left;
          for (std::size_t c = 0; c < width; ++c) tile[c][r] = row[c];
        }
        for (std::size_t c = 0; c < width; ++c) {
          std::copy_n(tile[c], height, to.data + (left + c) * to.stride + top);
        }
      }
    });
  }
  static void add(Panel loss, const std::vector<double>& parts) {
    double sum = 0;
    for (const double part : parts) sum += part;
    *loss.data += static_cast<float>(sum);
  }
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace kedge
