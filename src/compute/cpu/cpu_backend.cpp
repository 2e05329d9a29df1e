// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "base/eigen.h"
#include "base/parallel.h"
#include "compute/cpu/kernels.h"
#include "compute/threads.h"

#include <cblas.h>

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

// Fewer values than this are not worth a thread of their own.
constexpr std::size_t kWorthAThread = std::size_t{1} << 18;

/// How rows are shared out over threads: into a fixed number of parts for a thread count, so that sums by part are the
/// same every time. Threads are counted once, here: another thread may call set_threads() at any time.
class Parts {
 public:
  Parts(std::size_t rows, std::size_t cols)
      : rows_(rows),
        count_(std::clamp<std::size_t>(rows * cols / kWorthAThread, 1,
                                       std::min<std::size_t>(threads(), std::max<std::size_t>(rows, 1)))) {}

  [[nodiscard]] std::size_t count() const { return count_; }

  /// work(part, row) for all rows; a part is one contiguous run of rows in one thread.
  template <class Task>
  void run(const Task& work) const {
    const std::size_t size = (rows_ + count_ - 1) / count_;
    parallel_blocks(rows_, size, static_cast<unsigned>(count_), [&] {
      return [&](std::size_t first, std::size_t part_rows) {
        for (std::size_t i = first; i < first + part_rows; ++i) work(first / size, i);
      };
    });
  }

 private:
  std::size_t rows_, count_;
};

template <class Task>
void for_rows(std::size_t rows, std::size_t cols, const Task& work) {
  Parts(rows, cols).run([&](std::size_t, std::size_t i) { work(i); });
}

template <class T>
MatrixView<T> view(BasicPanel<T> p) {
  return {p.data, p.rows, p.cols, p.stride};
}

constexpr std::size_t kWorthThreads = std::size_t{1} << 22;  // multiplications
constexpr std::size_t kGrain = 16;                           // rows or columns that a kernel of BLAS takes at once
constexpr unsigned kMostOwn = 8;  // more threads make parts narrow, and BLAS's own share what it copies of a and b

void multiply(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, std::size_t inner, float alpha, ConstPanel a,
              ConstPanel b, float beta, Panel c, unsigned threads = 1) {
  const BlasCall call(threads);
  cblas_sgemm(CblasRowMajor, turn_a, turn_b, checked_int(c.rows, "rows"), checked_int(c.cols, "columns"),
              checked_int(inner, "the inner size"), alpha, a.data, checked_int(a.stride, "stride"), b.data,
              checked_int(b.stride, "stride"), beta, c.data, checked_int(c.stride, "stride"));
}

/// Some rows of a factor, as the product sees it.
ConstPanel part(CBLAS_TRANSPOSE turn, ConstPanel p, std::size_t first, std::size_t count) {
  return turn == CblasNoTrans ? p.middle_rows(first, count) : p.columns(first, count);
}

/// The part of `size` for each of the threads.
std::size_t share(std::size_t size, unsigned workers) {
  const std::size_t even = (size + workers - 1) / workers;
  return (even + kGrain - 1) / kGrain * kGrain;
}

/// c = alpha a b + beta c, with a or b turned. Our own threads share c out, and BLAS makes each part on one thread.
/// Threads of BLAS would go on asking for work for a while after each product, and the row kernels between two products
/// would share the cores with them.
///
/// `kedge fit` of cifar10's four files with --method param --anchors 300 --support 2000 --epochs 2, in turn with the
/// threads of BLAS: on two cores of a Xeon with AVX-512 15.9 s of CPU time instead of 19.5 s (median of ten), on two
/// Neoverse V1 cores 6.14 s instead of 6.88 s (median of nine).
void gemm(CBLAS_TRANSPOSE turn_a, CBLAS_TRANSPOSE turn_b, std::size_t inner, float alpha, ConstPanel a, ConstPanel b,
          float beta, Panel c) {
  if (c.rows == 0 || c.cols == 0) return;
  if (threads() > kMostOwn) return multiply(turn_a, turn_b, inner, alpha, a, b, beta, c, threads());
  const unsigned workers = c.rows * c.cols * inner < kWorthThreads ? 1 : threads();
  const bool by_columns = c.cols >= c.rows;
  const std::size_t size = by_columns ? c.cols : c.rows;
  const CBLAS_TRANSPOSE columns = turn_b == CblasNoTrans ? CblasTrans : CblasNoTrans;
  parallel_blocks(size, share(size, workers), workers, [&] {
    return [&](std::size_t first, std::size_t count) {
      if (by_columns) {
        multiply(turn_a, turn_b, inner, alpha, a, part(columns, b, first, count), beta, c.columns(first, count));
      } else {
        multiply(turn_a, turn_b, inner, alpha, part(turn_a, a, first, count), b, beta, c.middle_rows(first, count));
      }
    };
  });
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
    for_rows(to.rows, to.cols,
             [&](std::size_t i) { std::ranges::copy(view(from).row(rows[i]), view(to).row(i).begin()); });
  }

  void gemm_nn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    gemm(CblasNoTrans, CblasNoTrans, a.cols, alpha, a, b, beta, c);
  }
  void gemm_nt(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    gemm(CblasNoTrans, CblasTrans, a.cols, alpha, a, b, beta, c);
  }
  void gemm_tn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    gemm(CblasTrans, CblasNoTrans, a.rows, alpha, a, b, beta, c);
  }
  void gram(ConstPanel a, Panel c) override { gemm_nt(1, a, a, 0, c); }
  void affine(ConstPanel x, ConstPanel w, ConstPanel b, bool, Panel y) override {
    as_eigen(view(y)).rowwise() = as_eigen(view(b)).row(0);
    gemm(CblasNoTrans, CblasTrans, x.cols, 1, x, w, 1, y);
  }

  void row_lengths(ConstPanel x, Panel lengths) override {
    for_rows(x.rows, x.cols, [&](std::size_t i) { view(lengths).row(i)[0] = cpu::length(view(x).row(i)); });
  }
  void row_dots(ConstPanel x, ConstPanel y, Panel dots) override {
    for_rows(x.rows, x.cols, [&](std::size_t i) { view(dots).row(i)[0] = cpu::dot(view(x).row(i), view(y).row(i)); });
  }
  void normalize_rows(ConstPanel x, Panel unit, Panel lengths, Panel again) override {
    for_rows(x.rows, x.cols, [&](std::size_t i) {
      float& length = view(lengths).row(i)[0];
      length = cpu::length(view(x).row(i));
      cpu::normalize(view(x).row(i), length, view(unit).row(i));
      if (again.data != nullptr) std::ranges::copy(view(unit).row(i), view(again).row(i).begin());
    });
  }
  void normalize_rows_backward(ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta, Panel dx) override {
    for_rows(unit.rows, unit.cols, [&](std::size_t i) {
      cpu::normalize_backward(view(unit).row(i), view(lengths).row(i)[0], view(dunit).row(i), beta, view(dx).row(i));
    });
  }

  void coverage(ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau, Weighted weighted, Panel dr,
                Panel pull, Panel loss) override {
    std::vector<float> lengths(r.cols);
    for (std::size_t a = 0; a < r.cols; ++a) lengths[a] = view(a_lengths).row(a)[0];
    const Parts parts(r.rows, r.cols);
    std::vector<std::vector<float>> sums(parts.count(), std::vector<float>(r.cols));
    auto scratch = sums;
    std::vector<double> losses(sums.size());
    const float scale = weighted.share * weighted.weight;
    parts.run([&](std::size_t part, std::size_t i) {
      losses[part] +=
          static_cast<double>(weighted.share) * cpu::coverage(view(r).row(i), view(x_lengths).row(i)[0], lengths, tau,
                                                              scale, view(dr).row(i), sums[part], scratch[part]);
    });
    // The products come with -2 and |a|^2 with +1, whose gradient is 2 a: so the pull is minus the column sums.
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
    const Parts parts(n, n);
    std::vector<std::vector<float>> partial(parts.count(), std::vector<float>(n));
    std::vector<float> row_sums(n);
    std::vector<double> losses(partial.size());
    // exp((c - 1) / tau) serves rows and columns alike: it neither overflows nor, for the tau allowed, vanishes.
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
    for_rows(n, n, [&](std::size_t i) {
      const auto row = view(cosines).row(i);
      cpu::scale_exponentials(row, step, row_sums[i], column_sums);
      row[i] -= 2 * step;
    });
    turn(cosines, turned);
  }

  void softmax_rows(ConstPanel logits, float temperature, Panel softmax) override {
    for_rows(logits.rows, logits.cols,
             [&](std::size_t i) { cpu::softmax(view(logits).row(i), temperature, view(softmax).row(i)); });
  }
  void step_logits(ConstPanel dsoftmax, ConstPanel inner, float temperature, const AdamStep& adam, Panel logits,
                   Panel first_moment, Panel second_moment, Panel softmax) override {
    for_rows(logits.rows, logits.cols, [&](std::size_t i) {
      cpu::step_logits(view(dsoftmax).row(i), view(inner).row(i)[0], temperature, adam, view(logits).row(i),
                       view(first_moment).row(i), view(second_moment).row(i), view(softmax).row(i));
    });
  }
  void step_values(ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                   Panel second_moment) override {
    for_rows(values.rows, values.cols, [&](std::size_t i) {
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
    for_rows((from.cols + kTile - 1) / kTile, from.rows * kTile, [&](std::size_t strip) {
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
