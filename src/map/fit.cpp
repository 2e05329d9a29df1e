// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "base/random.h"
#include "train/param.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/fit.h>
#include <kedge/version.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace kedge {
namespace {

/// Sorted, so that files are read forwards and a user can slice the same rows out of any array.
std::vector<std::int64_t> draw_support(const Space& space, std::size_t asked, std::uint64_t seed) {
  const std::size_t count = asked == 0 ? std::min(FitOptions::kDefaultSupport, space.rows()) : asked;
  if (count > space.rows()) {
    throw Error(Code::bad_argument, fmt::format("a support of {} rows was asked for, but the spaces have only {} rows; "
                                                "lower the support",
                                                count, space.rows()));
  }
  std::vector<std::int64_t> ids;
  for (const std::size_t row : Random(seed).sample(space.rows(), count)) {
    ids.push_back(static_cast<std::int64_t>(space.range().begin + row));
  }
  std::ranges::sort(ids);
  return ids;
}

void require_ids(std::span<const std::int64_t> ids, const Space& space) {
  const RowRange range = space.range();
  for (const std::int64_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) < range.begin || static_cast<std::size_t>(id) >= range.end) {
      throw Error(Code::bad_argument,
                  fmt::format("support id {} is outside the rows {}:{}; ids are row numbers of the file", id,
                              range.begin, range.end));
    }
  }
  std::vector<std::int64_t> sorted(ids.begin(), ids.end());
  std::ranges::sort(sorted);
  const auto repeated = std::ranges::adjacent_find(sorted);
  if (repeated != sorted.end()) {
    throw Error(Code::bad_argument,
                fmt::format("support id {} is given more than once; each row may be used once", *repeated));
  }
}

/// Moves support rows to coordinates in which plain distance agrees with the similarity, and every space weighs the
/// same.
void to_coordinates(Matrix64& support, Similarity similarity, const Moments& moments, const WhiteningOptions& options) {
  auto rows = as_eigen(support.view());
  switch (similarity) {
    case Similarity::wip: whiten(make_whitening(moments, options), support.view()); break;
    case Similarity::cosine:
      for (Eigen::Index r = 0; r < rows.rows(); ++r) rows.row(r).normalize();
      break;
    case Similarity::euclidean:
    case Similarity::inner:
      rows.rowwise() -= as_eigen(std::span(moments.mean));
      rows /= std::sqrt(as_eigen(moments.covariance.view()).trace());
      break;
  }
}

/// The supports of all spaces side by side: support x (sum of dims).
Matrix side_by_side(std::span<const Matrix64> supports, std::span<const Moments> moments, const FitOptions& options) {
  std::size_t total = 0;
  for (const Matrix64& support : supports) total += support.cols();
  Matrix joined(supports.front().rows(), total);
  Eigen::Index column = 0;
  for (std::size_t i = 0; i < supports.size(); ++i) {
    Matrix64 coordinates = supports[i];
    to_coordinates(coordinates, options.similarity, moments[i], options.whitening);
    const auto block = as_eigen(std::as_const(coordinates).view());
    as_eigen(joined.view()).middleCols(column, block.cols()) = block.cast<float>();
    column += block.cols();
  }
  return joined;
}

RelativeMap map_of(const Bundle& bundle, const std::string& name, const Matrix64& support, const Moments& moments) {
  Matrix64 anchors(bundle.mixture.rows(), support.cols());
  as_eigen(anchors.view()).noalias() = as_eigen(bundle.mixture.view()).cast<double>() * as_eigen(support.view());
  return make_relative_map(name, bundle.similarity, anchors, moments, bundle.whitening);
}

void find_mixture(Bundle& bundle, std::span<const Space> spaces, std::span<const Moments> moments,
                  std::span<const Matrix64> supports, const FitOptions& options, const Progress& progress) {
  if (options.method == Method::param) {
    const auto backend = make_backend(options.device);
    const ParamTask task{spaces, moments, bundle.support_ids, options.anchors, options.seed, options.whitening};
    ParamResult learned = learn_mixture(*backend, task, options.param, options.checkpoint, progress);
    bundle.mixture = std::move(learned.mixture);
    bundle.history = std::move(learned.history);
    bundle.param = options.param;
    return;
  }
  if (progress) progress({"choosing anchors", 0, 1, ""});
  const Matrix coordinates = side_by_side(supports, moments, options);
  bundle.mixture = choose_anchors(options.method, coordinates.view(), options.anchors, options.seed);
  if (progress) progress({"choosing anchors", 1, 1, ""});
}

}  // namespace

Bundle fit(std::span<const Space> spaces, const FitOptions& options, const Progress& progress) {
  require_parallel(spaces);
  if (options.support != 0 && !options.support_ids.empty() && options.support != options.support_ids.size()) {
    throw Error(Code::bad_argument, fmt::format("a support of {} rows was asked for, but {} support ids were given",
                                                options.support, options.support_ids.size()));
  }
  Bundle bundle;
  bundle.method = options.method;
  bundle.similarity = options.similarity;
  bundle.whitening = options.whitening;
  bundle.seed = options.seed;
  bundle.rows = spaces.front().range();
  bundle.kedge_version = version();
  bundle.support_ids =
      options.support_ids.empty() ? draw_support(spaces.front(), options.support, options.seed) : options.support_ids;
  for (const Space& space : spaces) require_ids(bundle.support_ids, space);

  require_anchors(options.anchors, bundle.support_ids.size());

  std::vector<Moments> moments;
  std::vector<Matrix64> supports;
  for (const Space& space : spaces) {
    moments.push_back(compute_moments(space, progress));
    supports.push_back(space.gather(bundle.support_ids));
    bundle.sources.push_back(space.name());
  }
  find_mixture(bundle, spaces, moments, supports, options, progress);
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    bundle.maps.push_back(map_of(bundle, spaces[i].name(), supports[i], moments[i]));
  }
  return bundle;
}

RelativeMap attach(const Bundle& bundle, const Space& space, AttachFrom from, const Progress& progress) {
  const std::size_t needed = bundle.support_ids.size();
  if (from == AttachFrom::support_rows) {
    if (space.rows() != needed) {
      throw Error(Code::bad_file,
                  fmt::format("space '{}': the bundle was made from {} support rows, but {} has {}; give just "
                              "those rows, in support order",
                              space.name(), needed, space.source().label(), space.rows()));
    }
    std::vector<std::int64_t> in_order(needed);
    for (std::size_t i = 0; i < needed; ++i) in_order[i] = static_cast<std::int64_t>(space.range().begin + i);
    return map_of(bundle, space.name(), space.gather(in_order), compute_moments(space, progress));
  }
  const Matrix64 support = space.gather(bundle.support_ids);
  return map_of(bundle, space.name(), support, compute_moments(space, progress));
}

}  // namespace kedge
