// SPDX-License-Identifier: Apache-2.0
#include "base/rows.h"
#include "compute/count_larger.h"
#include "compute/threads.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <kedge/metrics.h>

namespace kedge {

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
  count_larger(queries.view(), keys.view(), ranks, device, [&](std::size_t done) {
    if (progress) progress({"ranking", done, a.rows, ""});
  });
  return ranks;
}

}  // namespace kedge
