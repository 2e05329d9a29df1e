// SPDX-License-Identifier: Apache-2.0
#include "base/finite.h"
#include "base/wording.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "fit/attach.h"
#include "fit/fit_options.h"
#include "fit/fit_spaces.h"
#include "fit/judge.h"
#include "space/variation.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/fit.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

/// Which rows of the file are the support, in support order, after checking that the space can have them.
std::vector<std::int64_t> support_of(const Bundle& bundle, const Space& space, bool support_rows) {
  if (!support_rows && bundle.by_id) {
    throw Error(
        Code::bad_argument,
        fmt::format("space '{}': the bundle's support was drawn by id, so that row numbers do not find it; give "
                    "the ids of these rows with {}, or the support rows alone",
                    space.name(), option_words("ids")));
  }
  if (!support_rows) return bundle.support_ids;
  const std::size_t needed = bundle.support_ids.size();
  if (space.rows() != needed) {
    throw Error(Code::bad_file, fmt::format("space '{}': the bundle was made from {} support rows, but {} has {}; give "
                                            "only those rows, in support order",
                                            space.name(), needed, space.source().label(), space.rows()));
  }
  std::vector<std::int64_t> in_order(needed);
  for (std::size_t i = 0; i < needed; ++i) in_order[i] = space.file_row(i);
  return in_order;
}

AttachSettings settings_of(const Bundle& bundle, const AttachOptions& options) {
  const AttachBy by = attach_by(bundle, options);
  require_regression_options(by, options.ridge, options.kernel);
  return {by, options.ridge, options.kernel};
}

Attachment attach_and_judge(const Bundle& bundle, const Matrix64& support, const Statistics& statistics,
                            const AttachOptions& options, const RowPool& pool, const Progress& progress) {
  Attachment attached = Attacher(bundle).attach(support, statistics, settings_of(bundle, options), progress);
  judge_attached(attached, bundle, support, statistics, pool);
  return attached;
}

RowPool file_pool(const Space& space, std::span<const std::int64_t> rows, const AttachOptions& options) {
  RowPool pool = pool_of(space, rows);
  pool.support_alone = options.support_rows;
  return pool;
}

/// Whether moments are those of the support rows alone, and so know the mean of nothing else.
bool are_of(const Moments& moments, const Matrix64& support) {
  if (moments.rows() != support.rows()) return false;
  const Eigen::RowVectorXd mean = column_means(support.view());
  const auto known = as_eigen(moments.mean());
  constexpr double kRounding = 1e-9;
  return (mean - known).norm() <= kRounding * (known.norm() + std::sqrt(moments.total_variance()));
}

Statistics known_statistics(const Bundle& bundle, Moments moments, const Matrix64& support,
                            const AttachOptions& options) {
  require_variation(moments, std::vector<std::string>(1, "its rows"));
  if (moments.rows() < support.rows()) {
    throw Error(Code::bad_argument, fmt::format("space '{}': its moments are of {} rows, but the bundle has {} support "
                                                "rows, which are some of them; is a part of the moments missing?",
                                                moments.parts().front().space, moments.rows(), support.rows()));
  }
  const bool of_support = are_of(moments, support);
  Statistics statistics = statistics_of(std::move(moments), bundle.whitening, bundle.shrinkage_rule, options.device);
  statistics.of_support = of_support;
  return statistics;
}

}  // namespace

Attachment attach(const Bundle& bundle, const Moments& moments, MatrixView<const double> support,
                  const AttachOptions& options, const Progress& progress) {
  const Work work;
  require_device(options.device);
  if (moments.parts().size() != 1) {
    throw Error(Code::bad_argument,
                fmt::format("one space is attached at a time, but the moments are of {}; choose one "
                            "of them, as in moments.of(name)",
                            moments.parts().size()));
  }
  const Moments::Part& part = moments.parts().front();
  if (support.rows != bundle.support_ids.size() || support.cols != part.dim) {
    throw Error(Code::bad_argument,
                fmt::format("space '{}': the bundle has {} support rows and the moments are of {} "
                            "values, but the support rows given are {} x {}",
                            part.space, bundle.support_ids.size(), part.dim, support.rows, support.cols));
  }
  Matrix64 rows(support.rows, support.cols);
  for (std::size_t r = 0; r < support.rows; ++r) {
    if (!all_finite(support.row(r))) {
      throw Error(Code::bad_argument,
                  fmt::format("space '{}': its support row {} holds a value that is NaN or infinite", part.space, r));
    }
    std::ranges::copy(support.row(r), rows.row(r).begin());
  }
  return attach_and_judge(bundle, rows, known_statistics(bundle, moments, rows, options), options, pool_of(rows),
                          progress);
}

Attachment attach(const Bundle& bundle, const Moments& moments, const Space& space, const AttachOptions& options,
                  const Progress& progress) {
  const Work work;
  require_device(options.device);
  Moments own = moments.of(space.name());
  if (own.dim() != space.dim()) {
    throw Error(Code::bad_argument, fmt::format("space '{}': the moments are of rows of {} values, but {} has {}",
                                                space.name(), own.dim(), space.source().label(), space.dim()));
  }
  const std::vector<std::int64_t> rows = support_of(bundle, space, options.support_rows);
  const Matrix64 support = space.gather(rows);
  return attach_and_judge(bundle, support, known_statistics(bundle, std::move(own), support, options), options,
                          file_pool(space, rows, options), progress);
}

Attachment attach(const Bundle& bundle, const Space& space, const AttachOptions& options, const Progress& progress) {
  const Work work;
  require_device(options.device);
  (void)settings_of(bundle, options);
  const std::vector<std::int64_t> rows = support_of(bundle, space, options.support_rows);
  const Matrix64 support = space.gather(rows);
  Statistics statistics =
      read_statistics(space, bundle.whitening, bundle.shrinkage_rule, false, options.device, progress);
  statistics.of_support = options.support_rows;
  return attach_and_judge(bundle, support, statistics, options, file_pool(space, rows, options), progress);
}

}  // namespace kedge
