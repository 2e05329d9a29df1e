// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "base/wording.h"
#include "fit/fit.h"

#include <kedge/anchors.h>

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

constexpr std::size_t kBlockValues = std::size_t{1} << 21;  // 16 MB of float64

void require_compatible(const FitOptions& options) {
  if (options.support_ids.empty()) return;
  if (options.support && *options.support != options.support_ids.size()) {
    refuse("asked for a support of {} rows, but {} support ids were given", *options.support,
           options.support_ids.size());
  }
  if (options.support_select != SupportSelect::random) {
    refuse("asked to select the support by {}, but {} support ids were given; give one or the other",
           to_string(options.support_select), options.support_ids.size());
  }
}

void require_ids(std::span<const std::int64_t> ids, const Space& space) {
  const RowRange range = space.range();
  for (const std::int64_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) < range.begin || static_cast<std::size_t>(id) >= range.end) {
      refuse("support id {} is outside the rows {}:{}; ids are row numbers of the file", id, range.begin, range.end);
    }
  }
  if (!space.is_range()) (void)space.find(ids);
  require_no_repeats(ids);
}

/// Of sorted rows, so that files are read forwards and a user can slice the same rows out of any array.
std::vector<std::int64_t> ids_of(const std::vector<std::size_t>& rows, const Space& space) {
  std::vector<std::int64_t> ids;
  for (const std::size_t row : rows) ids.push_back(space.file_row(row));
  return ids;
}

/// All rows of a space, scaled to a mean squared length of 1.
void read_coordinates(const Space& space, const Coordinates& coordinates, MatrixView<float> to,
                      const Progress& progress) {
  const std::size_t block_rows = std::clamp<std::size_t>(kBlockValues / space.dim(), 1, space.rows());
  Matrix64 buffer(block_rows, space.dim());
  double squares = 0;
  for (std::size_t first = 0; first < space.rows(); first += block_rows) {
    const auto block = buffer.view().middle_rows(0, std::min(block_rows, space.rows() - first));
    space.read(first, block);
    coordinates.apply(block);
    squares += as_eigen(block).squaredNorm();
    as_eigen(to.middle_rows(first, block.rows)) = as_eigen(block).cast<float>();
    if (progress) progress({"comparing rows of " + space.name(), first + block.rows, space.rows(), ""});
  }
  as_eigen(to) *= static_cast<float>(std::sqrt(static_cast<double>(space.rows()) / squares));
}

}  // namespace

std::vector<std::int64_t> known_support(std::span<const Space> spaces, const FitOptions& options) {
  require_compatible(options);
  const Space& first = spaces.front();
  const std::size_t count = support_size(options, first.rows());
  std::vector<std::int64_t> ids = options.support_ids;
  if (ids.empty()) require_support(count, first.rows());
  if (ids.empty() && options.support_select == SupportSelect::random) {
    const MatrixView<const float> unread{nullptr, first.rows(), 0, 0};
    ids = ids_of(select_rows(SupportSelect::random, unread, count, options.seed), first);
  }
  for (const Space& space : spaces) require_ids(ids, space);
  if (!is_adapter(options.method)) require_anchors(anchor_count(options, first.rows()), count);
  return ids;
}

std::vector<std::int64_t> select_support(std::span<const Space> spaces, std::span<const Statistics> statistics,
                                         const FitOptions& options, const Progress& progress) {
  const Space& first = spaces.front();
  std::size_t width = 0;
  for (const Space& space : spaces) width += space.dim();
  Matrix rows(first.rows(), width);
  std::size_t column = 0;
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    read_coordinates(spaces[i], Coordinates(options.similarity, statistics[i]),
                     rows.view().middle_cols(column, spaces[i].dim()), progress);
    column += spaces[i].dim();
  }
  if (progress) progress({"selecting the support", 0, 1, ""});
  const std::size_t count = support_size(options, first.rows());
  const auto ids = ids_of(select_rows(options.support_select, rows.view(), count, options.seed), first);
  for (const Space& space : spaces) require_ids(ids, space);
  if (progress) progress({"selecting the support", 1, 1, ""});
  return ids;
}

}  // namespace kedge
