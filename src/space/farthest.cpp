// SPDX-License-Identifier: Apache-2.0
#include "space/farthest.h"

#include "base/eigen.h"
#include "base/random.h"
#include "compute/products.h"

#include <limits>

namespace kedge {

std::vector<std::size_t> farthest_rows(MatrixView<const float> rows, std::size_t count, std::uint64_t seed) {
  const auto points = as_eigen(rows);
  const Eigen::VectorXf lengths = points.rowwise().squaredNorm();
  Eigen::VectorXf nearest = Eigen::VectorXf::Constant(points.rows(), std::numeric_limits<float>::infinity());
  std::vector<std::size_t> chosen{Random(seed).below(rows.rows)};
  while (chosen.size() < count) {
    const auto last = static_cast<Eigen::Index>(chosen.back());
    const Eigen::VectorXf products = product(points.row(last), points.transpose()).transpose();
    nearest = nearest.cwiseMin(((lengths - 2 * products).array() + lengths[last]).matrix());
    nearest[last] = -std::numeric_limits<float>::infinity();  // never twice, also among duplicates
    Eigen::Index farthest = 0;
    nearest.maxCoeff(&farthest);
    chosen.push_back(static_cast<std::size_t>(farthest));
  }
  return chosen;
}

}  // namespace kedge
