// SPDX-License-Identifier: Apache-2.0
#include "regress/kernel_choice.h"

#include <algorithm>

namespace kedge {
namespace {

// How often the choice looks at a part of the rows, as seen on real embeddings.
constexpr double kFirstSteps = 16, kMoreSteps = 6;
}  // namespace

double choice_work(std::size_t rows, std::size_t dim) {
  const auto n = static_cast<double>(rows);
  return n * n * (n / 3 + static_cast<double>(dim) / 2 + 100);
}

double kernel_work(std::size_t rows, std::size_t dim, std::size_t outputs) {
  const auto n = static_cast<double>(rows);
  const auto judged = static_cast<double>(std::min(rows, kMostJudged));
  double work = n * n * (n / 6 + judged / 2 + static_cast<double>(dim) / 2 + static_cast<double>(outputs));
  work += kFirstSteps * choice_work(std::min(rows, kFirstRows), dim);
  if (rows > kFirstRows) work += kMoreSteps * choice_work(std::min(rows, kMoreRows), dim);
  return work;
}

std::size_t kernel_bytes(std::size_t rows, std::size_t dim, std::size_t outputs) {
  const std::size_t columns = rows + 3 * outputs + 3 * dim;  // of all matrices that have a row for each row
  return checked_mul(checked_mul(rows, columns), sizeof(double));
}

}  // namespace kedge
