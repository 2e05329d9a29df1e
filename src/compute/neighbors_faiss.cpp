// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "base/parallel.h"
#include "base/wording.h"
#include "compute/neighbors.h"
#include "compute/threads.h"

#include <faiss/Clustering.h>
#include <faiss/IndexFlat.h>
#include <faiss/impl/FaissException.h>
#include <omp.h>

#include <algorithm>
#include <limits>

namespace kedge {
namespace {

using Id = std::int64_t;  // FAISS moved the name of its own between versions

// Below this many products, threads that wait for each other cost more than they save.
constexpr double kWorthThreads = 1e8;

/// Runs FAISS, which calls BLAS and OpenMP, on so many threads, and turns its exceptions into ours.
template <class Search>
auto with_faiss(unsigned workers, Search search) {
  const Work work;  // restores the threads of OpenMP
  omp_set_num_threads(static_cast<int>(workers));
  const BlasCall call(workers);
  try {
    return search();
  } catch (const faiss::FaissException& problem) {
    fail("FAISS failed: {}", problem.what());
  }
}

unsigned workers_for(MatrixView<const float> a, std::size_t others) {
  const double products = static_cast<double>(a.rows) * static_cast<double>(a.cols) * static_cast<double>(others);
  return products < kWorthThreads ? 1 : threads();
}

}  // namespace

bool have_faiss() {
  return true;
}

std::vector<std::size_t> kmeans_clusters(MatrixView<const float> points, std::size_t clusters, std::uint64_t seed) {
  return with_faiss(workers_for(points, clusters), [&] {
    const Matrix rows = matrix_of<float>(as_eigen(points));  // FAISS wants rows without gaps
    const auto count = static_cast<Id>(rows.rows());
    faiss::ClusteringParameters parameters;
    parameters.seed = static_cast<int>(seed % static_cast<std::uint64_t>(std::numeric_limits<int>::max()));
    parameters.min_points_per_centroid = 1;  // no warning on stderr if there are few
    parameters.max_points_per_centroid =
        std::numeric_limits<int>::max() / static_cast<int>(clusters);  // use all of them
    faiss::Clustering clustering(static_cast<int>(rows.cols()), static_cast<int>(clusters), parameters);
    faiss::IndexFlatL2 index(static_cast<Id>(rows.cols()));
    clustering.train(count, rows.cells().data(), index);
    std::vector<Id> labels(rows.rows());
    index.assign(count, rows.cells().data(), labels.data(), 1);
    return std::vector<std::size_t>(labels.begin(), labels.end());
  });
}

std::vector<std::int64_t> nearest_by_inner_product(MatrixView<const float> queries, MatrixView<const float> keys,
                                                   std::size_t count) {
  // A block of queries for each thread at a time: other operations get at BLAS between two blocks.
  constexpr std::size_t kQueries = 1024;
  faiss::IndexFlatIP index(static_cast<Id>(keys.cols));
  with_faiss(1, [&] { index.add(static_cast<Id>(keys.rows), matrix_of<float>(as_eigen(keys)).cells().data()); });
  std::vector<std::int64_t> found(queries.rows * count);
  parallel_blocks(queries.rows, kQueries, workers_for(queries, keys.rows), [&] {
    return [&](std::size_t first, std::size_t rows) {
      const Matrix asked = matrix_of<float>(as_eigen(queries.middle_rows(first, rows)));
      std::vector<float> scores(rows * count);
      std::vector<Id> own(rows * count);
      with_faiss(1, [&] {
        index.search(static_cast<Id>(rows), asked.cells().data(), static_cast<Id>(count), scores.data(), own.data());
      });
      std::ranges::copy(own, found.begin() + static_cast<std::ptrdiff_t>(first * count));
    };
  });
  return found;
}

}  // namespace kedge
