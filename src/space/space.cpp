// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "base/parallel.h"
#include "base/wording.h"

#include <kedge/device.h>
#include <kedge/space.h>

#include <algorithm>
#include <unordered_map>

namespace kedge {
namespace {

template <class T>
void require_finite(const Space& space, std::size_t first_file_row, MatrixView<const T> block) {
  if (block.stride == block.cols && all_finite(std::span<const T>(block.data, block.rows * block.cols))) return;
  for (std::size_t r = 0; r < block.rows; ++r) {
    if (all_finite(block.row(r))) continue;
    refuse_file(
        "space '{}': row {} of {} holds a value that is NaN or infinite; remove that input from every space, or "
        "encode it again",
        space.name(), space.source().place_of(first_file_row + r).value_or(first_file_row + r), space.source().label());
  }
}

template <class T>
void read_checked(const Space& space, std::size_t first, MatrixView<T> out) {
  if (first > space.rows() || out.rows > space.rows() - first || out.cols != space.dim()) {
    refuse("space '{}': asked for {} rows of {} values from row {} on, but it has {} rows of {}", space.name(),
           out.rows, out.cols, first, space.rows(), space.dim());
  }
  for (std::size_t done = 0; done < out.rows;) {  // rows that follow each other in the file are read at once
    const auto file_row = static_cast<std::size_t>(space.file_row(first + done));
    std::size_t count = space.is_range() ? out.rows : 1;
    while (done + count < out.rows &&
           space.file_row(first + done + count) == space.file_row(first + done) + static_cast<std::int64_t>(count)) {
      ++count;
    }
    const MatrixView<T> block = out.middle_rows(done, count);
    space.source().read(file_row, block);
    require_finite<T>(space, file_row, block);
    done += count;
  }
}

void require_values(const std::string& name, const RowSource& source) {
  if (source.rows() == 0) refuse_file("space '{}': {} has no rows", name, source.label());
  if (source.cols() == 0) refuse_file("space '{}': the rows of {} hold no values", name, source.label());
}

}  // namespace

void require_space_name(const std::string& name) {
  // JSON inside of bundles holds UTF-8 only, and terminals show the names.
  if (!name.empty() && name.find_first_of("=#") == std::string::npos && printable(name) == name) return;
  refuse("space name '{}' cannot be used: give a name in UTF-8 without '=', '#' and control characters", name);
}

Space::Space(std::string name, std::shared_ptr<const RowSource> source, RowRange range)
    : name_(std::move(name)), source_(std::move(source)), range_(range) {
  require_space_name(name_);
  require_values(name_, *source_);
  const std::size_t total = source_->rows();
  if (range_.end == RowRange::kEnd) range_.end = total;
  if (range_.begin == range_.end) {
    refuse("space '{}': rows {}:{} are none at all; {} has rows 0:{}", name_, range_.begin, range_.end,
           source_->label(), total);
  }
  if (range_.begin >= range_.end || range_.end > total) {
    refuse("space '{}': asked for rows {}:{}, but {} has rows 0:{}", name_, range_.begin, range_.end, source_->label(),
           total);
  }
}

Space::Space(std::string name, std::shared_ptr<const RowSource> source, RowIds rows)
    : name_(std::move(name)), source_(std::move(source)) {
  require_space_name(name_);
  require_values(name_, *source_);
  const std::size_t total = source_->rows();
  if (rows.of && rows.of != total) {
    refuse("space '{}': the mask of rows is for {} rows, but {} has {}", name_, *rows.of, source_->label(), total);
  }
  if (rows.ids.empty()) refuse("space '{}': no rows were chosen", name_);
  std::vector<std::int64_t> sorted = rows.ids;
  std::ranges::sort(sorted);
  for (const std::int64_t id : {sorted.front(), sorted.back()}) {
    if (id < 0 || static_cast<std::size_t>(id) >= total) {
      refuse("space '{}': asked for row {}, but {} has rows 0:{}", name_, id, source_->label(), total);
    }
  }
  if (const auto repeated = std::ranges::adjacent_find(sorted); repeated != sorted.end()) {
    const bool mask = rows.ids.size() == total && sorted.back() <= 1;
    refuse("space '{}': row {} is given more than once; {}", name_, *repeated,
           mask ? "is it a mask? Give it as booleans" : "each row may be used once");
  }
  range_ = {static_cast<std::size_t>(sorted.front()), static_cast<std::size_t>(sorted.back()) + 1};
  ids_ = std::make_shared<const std::vector<std::int64_t>>(std::move(rows.ids));
}

std::vector<std::size_t> Space::find(std::span<const std::int64_t> file_rows) const {
  std::unordered_map<std::int64_t, std::size_t> places;
  for (std::size_t row = 0; ids_ && row < ids_->size(); ++row) places.emplace((*ids_)[row], row);
  std::vector<std::size_t> found;
  for (const std::int64_t file_row : file_rows) {
    const auto place = places.find(file_row);
    const bool inside = ids_ ? place != places.end()
                             : file_row >= 0 && static_cast<std::size_t>(file_row) >= range_.begin &&
                                   static_cast<std::size_t>(file_row) < range_.end;
    if (!inside) refuse("row {} is not among the {} rows of space '{}' that were chosen", file_row, rows(), name_);
    found.push_back(ids_ ? place->second : static_cast<std::size_t>(file_row) - range_.begin);
  }
  return found;
}

void Space::read(std::size_t first, MatrixView<float> out) const {
  read_checked(*this, first, out);
}
void Space::read(std::size_t first, MatrixView<double> out) const {
  read_checked(*this, first, out);
}

Matrix Space::read_all() const {
  Matrix all(rows(), dim());
  read(0, all.view());
  return all;
}

Matrix64 Space::gather(std::span<const std::int64_t> file_rows) const {
  constexpr std::size_t kShare = 256;  // rows that are worth a thread
  for (const std::int64_t row : file_rows) {
    if (row >= 0 && source_->place_of(static_cast<std::size_t>(row))) continue;
    refuse("space '{}': row {} is needed, but {} has rows 0:{}; are its rows the same inputs in the same order?", name_,
           row, source_->label(), source_->rows());
  }
  Matrix64 gathered(file_rows.size(), dim());
  std::vector<char> finite(file_rows.size());
  parallel_blocks(file_rows.size(), kShare, threads(), [&] {
    return [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; i < first + count; ++i) {
        source_->read(static_cast<std::size_t>(file_rows[i]), gathered.view().middle_rows(i, 1));
        finite[i] = all_finite(gathered.row(i)) ? 1 : 0;
      }
    };
  });
  const auto row = static_cast<std::size_t>(std::ranges::find(finite, 0) - finite.begin());
  if (row < finite.size()) {
    require_finite<double>(*this, static_cast<std::size_t>(file_rows[row]), gathered.view().middle_rows(row, 1));
  }
  return gathered;
}

namespace {

/// Support ids are row numbers of every file, so rows of other numbers would be paired with each other.
void require_same_rows(const Space& first, const Space& other) {
  std::size_t row = 0;
  while (row < first.rows() && first.file_row(row) == other.file_row(row)) {
    if (first.is_range() && other.is_range()) return;
    ++row;
  }
  if (row == first.rows()) return;
  refuse(
      "the spaces must have the same rows: row {} of '{}' is row {} of its file, but row {} of '{}' is row {}; choose "
      "the same rows of every file",
      row, first.name(), first.file_row(row), row, other.name(), other.file_row(row));
}

}  // namespace

void require_parallel(std::span<const Space> spaces) {
  if (spaces.empty()) refuse("no space was given; name at least one");
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    if (spaces[i].rows() != spaces[0].rows()) {
      refuse_file(
          "the spaces must have the same rows: '{}' has {} rows, '{}' has {}; embed the same inputs in the same "
          "order, or choose a range both have",
          spaces[0].name(), spaces[0].rows(), spaces[i].name(), spaces[i].rows());
    }
    require_same_rows(spaces[0], spaces[i]);
    if (std::ranges::find(spaces, spaces[i].name(), &Space::name) - spaces.begin() != static_cast<std::ptrdiff_t>(i)) {
      refuse("two spaces are called '{}'; give each its own name", spaces[i].name());
    }
  }
}

}  // namespace kedge
