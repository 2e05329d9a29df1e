// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "base/eigen.h"
#include "base/parallel.h"
#include "eval/count_better.h"
#include "eval/unit_rows.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <kedge/metrics.h>

#include <algorithm>
#include <memory>
#include <mutex>

namespace kedge {
namespace {

constexpr std::size_t kQueries = 256;  // rows of a block of cosines
constexpr std::size_t kKeys = 2048;    // columns

/// Counts keys better than the right one, for one block of queries.
class RankCounter {
 public:
  RankCounter(MatrixView<const float> queries, MatrixView<const float> keys, std::span<std::size_t> ranks)
      : queries_(queries), keys_(keys), ranks_(ranks), cosines_(kQueries, kKeys), near_(near_tie(queries.cols)) {}

  void count(std::size_t first, std::size_t rows) {
    std::vector<double> right(rows);
    for (std::size_t i = 0; i < rows; ++i) right[i] = exact_product(queries_.row(first + i), keys_.row(first + i));
    for (std::size_t key = 0; key < keys_.rows; key += kKeys) {
      const std::size_t width = std::min(kKeys, keys_.rows - key);
      set_product(MatrixView<float>{cosines_.view().data, rows, width, kKeys}, queries_.middle_rows(first, rows),
                  as_eigen(keys_.middle_rows(key, width)).transpose());
      for (std::size_t i = 0; i < rows; ++i)
        ranks_[first + i] += count_better({first + i, right[i]}, {cosines_.row(i).data(), width},
                                          queries_.row(first + i), keys_.middle_rows(key, width), key, near_);
    }
  }

 private:
  MatrixView<const float> queries_, keys_;
  std::span<std::size_t> ranks_;
  Matrix cosines_;
  float near_;
};

}  // namespace

Matrix unit_rows(MatrixView<const float> rows) {
  Matrix unit(rows.rows, rows.cols);
  for (std::size_t r = 0; r < rows.rows; ++r) {
    const double length = as_eigen(rows.row(r)).cast<double>().norm();
    if (length > 0) as_eigen(unit.row(r)) = (as_eigen(rows.row(r)).cast<double>() / length).cast<float>();
  }
  return unit;
}

std::vector<std::size_t> retrieval_ranks(MatrixView<const float> a, MatrixView<const float> b, const Progress& progress,
                                         Device device) {
  const Work work;
  if (a.rows != b.rows || a.cols != b.cols) {
    throw Error(Code::bad_argument, fmt::format("ranks need two matrices of the same shape, got {} x {} and {} x {}",
                                                a.rows, a.cols, b.rows, b.cols));
  }
  const Matrix queries = unit_rows(a);
  const Matrix keys = unit_rows(b);
  std::vector<std::size_t> ranks(a.rows, 1);
  if (device == Device::cuda) {
    const auto tell = [&](std::size_t done) {
      if (progress) progress({"ranking", done, a.rows, ""});
    };
    cuda::count_larger(queries.view(), keys.view(), near_tie(a.cols), ranks, tell);
    return ranks;
  }
  std::mutex progress_lock;
  std::size_t done = 0;
  parallel_blocks(a.rows, kQueries, threads(), [&] {
    auto counter = std::make_shared<RankCounter>(queries.view(), keys.view(), ranks);
    return [&, counter](std::size_t first, std::size_t rows) {
      counter->count(first, rows);
      const std::scoped_lock lock(progress_lock);
      done += rows;
      if (progress) progress({"ranking", done, a.rows, ""});
    };
  });
  return ranks;
}

}  // namespace kedge
