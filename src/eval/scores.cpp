// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/metrics.h>

#include <cmath>
#include <limits>
#include <map>

namespace kedge {

Classification score_labels(std::span<const std::int64_t> truth, std::span<const std::int64_t> predicted) {
  if (truth.size() != predicted.size() || truth.empty()) {
    throw Error(Code::bad_argument, fmt::format("{} true labels but {} predictions; each input needs one of each",
                                                truth.size(), predicted.size()));
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
    throw Error(Code::bad_argument, fmt::format("targets are {} x {}, but predictions {} x {}", truth.rows, truth.cols,
                                                predicted.rows, predicted.cols));
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
