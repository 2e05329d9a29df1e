// SPDX-License-Identifier: Apache-2.0
#include "base/rows.h"
#include "base/wording.h"
#include "compute/lapack.h"
#include "compute/neighbors.h"
#include "compute/products.h"
#include "compute/threads.h"

#include <kedge/metrics.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

namespace kedge {
namespace {

constexpr std::size_t kBlock = 2048;  // rows at a time

/// Sums over the rows of both matrices, in float64, gathered block by block.
struct PairSums {
  double squared_difference = 0, cosine = 0;
  Eigen::RowVectorXd mean_a, mean_b;
  EigenRows<double> aa, bb, ab;  ///< centred products of columns
};

Eigen::RowVectorXd means64(MatrixView<const float> rows) {
  return as_eigen(rows).cast<double>().colwise().mean();
}

PairSums sum_pairs(MatrixView<const float> a, MatrixView<const float> b) {
  PairSums sums;
  sums.mean_a = means64(a);
  sums.mean_b = means64(b);
  const auto dim = static_cast<Eigen::Index>(a.cols);
  for (auto* products : {&sums.aa, &sums.bb, &sums.ab}) *products = EigenRows<double>::Zero(dim, dim);
  for (std::size_t first = 0; first < a.rows; first += kBlock) {
    const std::size_t rows = std::min(kBlock, a.rows - first);
    EigenRows<double> x = as_eigen(a.middle_rows(first, rows)).cast<double>();
    EigenRows<double> y = as_eigen(b.middle_rows(first, rows)).cast<double>();
    sums.squared_difference += (x - y).squaredNorm();
    for (Eigen::Index r = 0; r < x.rows(); ++r) {
      const double lengths = x.row(r).norm() * y.row(r).norm();
      if (lengths > 0) sums.cosine += x.row(r).dot(y.row(r)) / lengths;
    }
    x.rowwise() -= sums.mean_a;
    y.rowwise() -= sums.mean_b;
    add_product(sums.aa, x.transpose(), x);
    add_product(sums.bb, y.transpose(), y);
    add_product(sums.ab, x.transpose(), y);
  }
  return sums;
}

/// The variance of all values: within columns, plus that of the column means.
double variance(const EigenRows<double>& centred_products, const Eigen::RowVectorXd& means, std::size_t rows) {
  const double within = centred_products.trace() / static_cast<double>(rows) / static_cast<double>(means.size());
  return within + (means.array() - means.mean()).square().mean();
}

double ratio(double above, double below) {
  return below > 0 ? above / below : 0;
}

Eigenpairs decompose(const EigenRows<double>& centred_products, bool with_vectors) {
  if (with_vectors) return eigh(matrix_of<double>(centred_products));
  return {eigenvalues(matrix_of<double>(centred_products)), {}};
}

/// Takes the squares of the singular values, in ascending order.
double effective_rank(std::vector<double> singular) {
  // Eigenvalues this far below the largest are rounding, but their roots would count.
  const double noise = singular.back() * static_cast<double>(singular.size()) * std::numeric_limits<double>::epsilon();
  double total = 0;
  for (double& value : singular) {
    value = value > noise ? std::sqrt(value) : 0;
    total += value;
  }
  double entropy = 0;
  for (const double value : singular) {
    const double share = ratio(value, total);
    if (share > 1e-12) entropy -= share * std::log(share);
  }
  return total > 0 ? std::exp(entropy) : 0;
}

/// The directions of most of the variance, one in each row, scaled so that rows have orthonormal columns along them.
EigenRows<double> leading_directions(const Eigenpairs& pairs) {
  constexpr double kKept = 0.99;
  const double total = std::accumulate(pairs.values.begin(), pairs.values.end(), 0.0);
  std::size_t count = 0;
  for (double held = 0; count < pairs.values.size() && held < kKept * total; ++count) {
    held += pairs.values[pairs.values.size() - 1 - count];
  }
  const std::size_t first = pairs.values.size() - count;
  EigenRows<double> directions = as_eigen(pairs.vectors.view().middle_rows(first, count));
  for (Eigen::Index r = 0; r < directions.rows(); ++r) {
    directions.row(r) /= std::sqrt(pairs.values[first + static_cast<std::size_t>(r)]);
  }
  return directions;
}

double svcca(const Eigenpairs& of_a, const Eigenpairs& of_b, const EigenRows<double>& ab) {
  const EigenRows<double> a = leading_directions(of_a);
  const EigenRows<double> b = leading_directions(of_b);
  if (a.rows() == 0 || b.rows() == 0) return 0;  // all rows are the same
  const std::vector<double> correlations = svd(matrix_of<double>(product(product(a, ab), b.transpose()))).values;
  double sum = 0;
  for (const double correlation : correlations) sum += std::min(correlation, 1.0);
  return sum / static_cast<double>(correlations.size());
}

std::vector<std::vector<std::int64_t>> sorted_neighbors(MatrixView<const float> rows, std::size_t count) {
  const Matrix unit = unit_rows(rows);
  const std::vector<std::int64_t> found = nearest_by_inner_product(unit.view(), unit.view(), count + 1);
  std::vector<std::vector<std::int64_t>> neighbors(rows.rows);
  for (std::size_t i = 0; i < rows.rows; ++i) {
    for (std::size_t j = 0; j <= count; ++j) {
      const std::int64_t id = found[i * (count + 1) + j];
      if (id != static_cast<std::int64_t>(i) && neighbors[i].size() < count) neighbors[i].push_back(id);
    }
    std::ranges::sort(neighbors[i]);
  }
  return neighbors;
}

std::optional<double> knn_overlap(MatrixView<const float> a, MatrixView<const float> b, std::size_t count) {
  if (!have_faiss() || count == 0 || a.rows <= count) return std::nullopt;
  const auto near_a = sorted_neighbors(a, count);
  const auto near_b = sorted_neighbors(b, count);
  std::size_t common = 0;
  std::vector<std::int64_t> both;
  for (std::size_t i = 0; i < a.rows; ++i) {
    both.clear();
    std::ranges::set_intersection(near_a[i], near_b[i], std::back_inserter(both));
    common += both.size();
  }
  return static_cast<double>(common) / static_cast<double>(a.rows * count);
}

}  // namespace

std::vector<std::size_t> retrieval_ranks(MatrixView<const float> a, MatrixView<const float> b, Device device,
                                         const Progress& progress) {
  const Work work;
  if (a.rows != b.rows || a.cols != b.cols) {
    refuse("ranks need two matrices of the same shape, got {} x {} and {} x {}", a.rows, a.cols, b.rows, b.cols);
  }
  const Matrix queries = unit_rows(a);
  const Matrix keys = unit_rows(b);
  std::vector<std::size_t> ranks(a.rows, 1);
  count_larger(queries.view(), keys.view(), ranks, device, [&](std::size_t done) {
    if (progress) progress({"ranking", done, a.rows, ""});
  });
  return ranks;
}

Comparison compare(MatrixView<const float> a, MatrixView<const float> b, const CompareOptions& options,
                   const Progress& progress) {
  const Work work;
  if (a.rows != b.rows || a.cols != b.cols || a.rows == 0 || a.cols == 0) {
    refuse(
        "compare needs two matrices of the same shape, got {} x {} and {} x {}; transform the same rows with one "
        "bundle",
        a.rows, a.cols, b.rows, b.cols);
  }
  Comparison result;
  result.rows = a.rows;
  result.dim = a.cols;
  const auto rows = static_cast<double>(a.rows);

  result.recall.resize(options.recall_at.size());
  result.ranks = retrieval_ranks(a, b, options.device, progress);
  for (const std::size_t rank : result.ranks) {
    result.mrr += 1 / static_cast<double>(rank);
    for (std::size_t i = 0; i < result.recall.size(); ++i) {
      if (rank <= options.recall_at[i]) result.recall[i] += 1;
    }
  }
  result.mrr /= rows;
  for (double& share : result.recall) share /= rows;

  const PairSums sums = sum_pairs(a, b);
  const double variance_a = variance(sums.aa, sums.mean_a, a.rows);
  const double variance_b = variance(sums.bb, sums.mean_b, b.rows);
  const double mean_squared = sums.squared_difference / rows / static_cast<double>(a.cols);
  result.nmse = ratio(mean_squared, (variance_a + variance_b) / 2);
  result.rr_std_a = std::sqrt(variance_a);
  result.rr_std_b = std::sqrt(variance_b);
  result.paired_cosine = sums.cosine / rows;
  result.linear_cka = ratio(sums.ab.squaredNorm(), sums.aa.norm() * sums.bb.norm());
  const Eigenpairs of_a = decompose(sums.aa, options.svcca);
  const Eigenpairs of_b = decompose(sums.bb, options.svcca);
  if (options.svcca) result.svcca = svcca(of_a, of_b, sums.ab);
  result.effective_rank_a = effective_rank(of_a.values);
  result.effective_rank_b = effective_rank(of_b.values);
  if (options.knn_overlap) result.knn_overlap = knn_overlap(a, b, options.neighbors);
  return result;
}

std::vector<std::pair<std::string, std::optional<double>>> named_scores(const Comparison& comparison,
                                                                        const CompareOptions& options) {
  std::vector<std::pair<std::string, std::optional<double>>> scores{{"mrr", comparison.mrr}};
  for (std::size_t i = 0; i < comparison.recall.size(); ++i) {
    scores.emplace_back(fmt::format("recall@{}", options.recall_at.at(i)), comparison.recall[i]);
  }
  scores.insert(scores.end(), {{"nmse", comparison.nmse},
                               {"rr_std_a", comparison.rr_std_a},
                               {"rr_std_b", comparison.rr_std_b},
                               {"paired_cosine", comparison.paired_cosine},
                               {"linear_cka", comparison.linear_cka},
                               {"svcca", comparison.svcca},
                               {"effective_rank_a", comparison.effective_rank_a},
                               {"effective_rank_b", comparison.effective_rank_b},
                               {fmt::format("knn_overlap@{}", options.neighbors), comparison.knn_overlap}});
  return scores;
}

Classification score_labels(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted) {
  if (truth.size() != predicted.size() || truth.empty()) {
    refuse("{} true labels but {} predictions; each input needs one of each", truth.size(), predicted.size());
  }
  struct Counts {
    double right = 0, truly = 0, predicted = 0;
  };
  std::map<std::int64_t, Counts> classes;
  double right = 0;
  for (std::size_t i = 0; i < truth.size(); ++i) {
    classes[truth[i]].truly += 1;
    classes[predicted[i]].predicted += 1;
    if (truth[i] != predicted[i]) continue;
    classes[truth[i]].right += 1;
    right += 1;
  }
  const auto total = static_cast<double>(truth.size());
  Classification score;
  score.accuracy = right / total;
  for (const auto& [label, counts] : classes) {
    const double f1 = 2 * counts.right / (counts.truly + counts.predicted);
    score.weighted_f1 += f1 * counts.truly;
    score.macro_f1 += f1;
  }
  score.weighted_f1 /= total;  // not each of them, so that a perfect score is exactly 1
  score.macro_f1 /= static_cast<double>(classes.size());
  return score;
}

Regression score_targets(MatrixView<const float> truth, MatrixView<const float> predicted, double peak) {
  if (truth.rows != predicted.rows || truth.cols != predicted.cols || truth.rows == 0 || truth.cols == 0) {
    refuse("targets are {} x {}, but predictions {} x {}", truth.rows, truth.cols, predicted.rows, predicted.cols);
  }
  double squared = 0;
  for (std::size_t r = 0; r < truth.rows; ++r) {
    squared += (as_eigen(truth.row(r)).cast<double>() - as_eigen(predicted.row(r)).cast<double>()).squaredNorm();
  }
  Regression score;
  score.mse = squared / static_cast<double>(truth.rows) / static_cast<double>(truth.cols);
  score.psnr = score.mse > 0 ? 10 * std::log10(peak * peak / score.mse) : std::numeric_limits<double>::infinity();
  return score;
}

}  // namespace kedge
