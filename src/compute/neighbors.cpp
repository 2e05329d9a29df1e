// SPDX-License-Identifier: Apache-2.0
#include "compute/neighbors.h"

#include "base/parallel.h"
#include "base/random.h"
#include "compute/cuda/cuda.h"
#include "compute/device.h"
#include "compute/products.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>

namespace kedge {
namespace {

constexpr std::size_t kQueries = 256;  // rows of a block of products
constexpr std::size_t kKeys = 2048;    // columns

/// Counts for one block of queries at a time.
class Counter {
 public:
  Counter(MatrixView<const float> queries, MatrixView<const float> keys, std::span<std::size_t> counts)
      : queries_(queries), keys_(keys), counts_(counts), products_(kQueries, kKeys), near_(near_tie(queries.cols)) {}

  void count(std::size_t first, std::size_t rows) {
    std::vector<double> own(rows);
    for (std::size_t i = 0; i < rows; ++i) own[i] = exact_product(queries_.row(first + i), keys_.row(first + i));
    for (std::size_t key = 0; key < keys_.rows; key += kKeys) {
      const std::size_t width = std::min(kKeys, keys_.rows - key);
      set_product(MatrixView<float>{products_.view().data, rows, width, kKeys}, queries_.middle_rows(first, rows),
                  as_eigen(keys_.middle_rows(key, width)).transpose());
      for (std::size_t i = 0; i < rows; ++i)
        counts_[first + i] += count_before({first + i, own[i]}, {products_.row(i).data(), width},
                                           queries_.row(first + i), keys_.middle_rows(key, width), key, near_);
    }
  }

 private:
  MatrixView<const float> queries_, keys_;
  std::span<std::size_t> counts_;
  Matrix products_;
  float near_;
};

}  // namespace

float near_tie(std::size_t dim) {
  return 2 * std::sqrt(static_cast<float>(dim)) * std::numeric_limits<float>::epsilon();
}

double exact_product(std::span<const float> a, std::span<const float> b) {
  return as_eigen(a).cast<double>().dot(as_eigen(b).cast<double>());
}

std::size_t count_before(const CountedKey& counted, std::span<const float> products, std::span<const float> query,
                         MatrixView<const float> keys, std::size_t first_key, float near) {
  const auto threshold = static_cast<float>(counted.product);
  const float above = threshold + near;
  const float below = threshold - near;
  std::size_t surely = 0;
  std::size_t maybe = 0;
  for (const float product : products) {
    surely += static_cast<std::size_t>(product > above);
    maybe += static_cast<std::size_t>(product >= below);
  }
  if (surely == maybe) return surely;
  for (std::size_t j = 0; j < products.size(); ++j) {
    const std::size_t key = first_key + j;
    if (products[j] > above || products[j] < below || key == counted.number) continue;
    const double product = exact_product(query, keys.row(j));
    const bool before = counted.in_order && key < counted.number;
    surely += static_cast<std::size_t>(before ? product >= counted.product : product > counted.product);
  }
  return surely;
}

void count_larger(MatrixView<const float> queries, MatrixView<const float> keys, std::span<std::size_t> counts,
                  Device device, const std::function<void(std::size_t)>& tell) {
  if (off_processor(device)) return cuda::count_larger(queries, keys, near_tie(queries.cols), counts, tell);
  std::mutex lock;
  std::size_t done = 0;
  parallel_blocks(queries.rows, kQueries, threads(), [&] {
    return [&, counter = Counter(queries, keys, counts)](std::size_t first, std::size_t rows) mutable {
      counter.count(first, rows);
      const std::scoped_lock one_at_a_time(lock);
      tell(done += rows);
    };
  });
}

std::vector<std::size_t> farthest_rows(MatrixView<const float> rows, std::size_t count, std::uint64_t seed) {
  const auto points = as_eigen(rows);
  const Eigen::VectorXf lengths = points.rowwise().squaredNorm();
  Eigen::VectorXf nearest = Eigen::VectorXf::Constant(points.rows(), std::numeric_limits<float>::infinity());
  std::vector<std::size_t> chosen{Random(seed).below(rows.rows)};
  while (chosen.size() < count) {
    const auto last = static_cast<Eigen::Index>(chosen.back());
    const Eigen::VectorXf products = product(points.row(last), points.transpose()).transpose();
    nearest = nearest.cwiseMin(((lengths - 2 * products).array() + lengths[last]).matrix());
    nearest[last] = -std::numeric_limits<float>::infinity();  // no row twice, even among duplicates
    Eigen::Index farthest = 0;
    nearest.maxCoeff(&farthest);
    chosen.push_back(static_cast<std::size_t>(farthest));
  }
  return chosen;
}

}  // namespace kedge
