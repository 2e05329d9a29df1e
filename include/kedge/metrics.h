// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>
#include <kedge/progress.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kedge {

struct CompareOptions {
  std::vector<std::size_t> recall_at = {1, 5, 10};
  std::size_t neighbors = 10;   ///< k of the k-NN overlap
  bool knn_overlap = true;      ///< whether it is measured
  bool svcca = true;            ///< whether it is measured; its eigenvectors take time
  Device device = Device::cpu;  ///< where ranks are counted; the rest runs on the processor
};

/// How well two matrices of parallel rows agree. Retrieval looks for row i of b with row i of a, by cosine.
struct Comparison {
  std::size_t rows = 0, dim = 0;
  double mrr = 0;                  ///< mean of 1 / rank; rank = 1 + number of strictly larger cosines
  std::vector<double> recall;      ///< share of ranks <= k, for each k of recall_at
  std::vector<std::size_t> ranks;  ///< of each row; mrr and recall are made from them
  double nmse = 0;                 ///< mean squared difference / mean of the two variances
  double rr_std_a = 0, rr_std_b = 0;
  double paired_cosine = 0;
  double linear_cka = 0;
  /// Mean canonical correlation of the directions that hold 99 % of the variance of each (Raghu et al., 2017).
  std::optional<double> svcca;
  double effective_rank_a = 0, effective_rank_b = 0;  ///< exp of the entropy of the centred singular values
  std::optional<double> knn_overlap;  ///< share of common nearest neighbours; needs FAISS and k + 1 rows
};

/// Never holds more than a block of rows x rows. Throws Error(Code::bad_argument) if the shapes differ or are empty.
[[nodiscard]] Comparison compare(MatrixView<const float> a, MatrixView<const float> b,
                                 const CompareOptions& options = {}, const Progress& progress = {});

/// All scores, under the names users know: mrr, recall@1, ..., knn_overlap@10. None for what was not measured.
[[nodiscard]] std::vector<std::pair<std::string, std::optional<double>>> named_scores(const Comparison& comparison,
                                                                                      const CompareOptions& options);

/// For every row i of a: 1 + the number of rows of b whose cosine with it is strictly larger than the cosine of row i.
[[nodiscard]] std::vector<std::size_t> retrieval_ranks(MatrixView<const float> a, MatrixView<const float> b,
                                                       Device device = Device::cpu, const Progress& progress = {});

/// As scikit-learn defines them; a class without a prediction or a truth has an F1 of 0.
struct Classification {
  double accuracy = 0, weighted_f1 = 0, macro_f1 = 0;
};
[[nodiscard]] Classification score_labels(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted);

struct Regression {
  double mse = 0;
  double psnr = 0;  ///< decibels; infinite if the mse is 0
};
/// `peak` is the largest value a target can have, e.g. 1 or 255 for pixels.
[[nodiscard]] Regression score_targets(MatrixView<const float> truth, MatrixView<const float> predicted, double peak);

}  // namespace kedge
