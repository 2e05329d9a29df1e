// SPDX-License-Identifier: Apache-2.0
#include "stitch/stitch_context.h"

#include "base/eigen.h"
#include "base/parallel.h"
#include "base/wording.h"
#include "fit/fit.h"
#include "stitch/stitch_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace kedge {
namespace {

/// How messages refer to train or test rows.
std::string shown(RowRange range, const RowIds& rows) {
  return rows.ids.empty() ? fmt::format("{}:{}", range.begin, range.end) : fmt::format("(all {})", rows.ids.size());
}

/// The rows of a part, by their numbers in the files.
Space part_of(const Space& space, RowRange range, const RowIds& rows) {
  return rows.ids.empty() ? space.with_rows(range) : space.with_rows(rows);
}

std::vector<std::int64_t> labels_of(const StitchData& data, const Space& part) {
  std::vector<std::int64_t> labels;
  for (std::size_t row = 0; row < part.rows() && !data.labels.empty(); ++row) {
    labels.push_back(data.labels[static_cast<std::size_t>(part.file_row(row))]);
  }
  return labels;
}

void require_apart(const StitchData& data) {
  const RowRange& train = data.train;
  const RowRange& test = data.test;
  if (!data.train_ids.ids.empty() || !data.test_ids.ids.empty()) {
    const Space learned = part_of(data.spaces.front(), train, data.train_ids);
    const Space judged = part_of(data.spaces.front(), test, data.test_ids);
    std::set<std::int64_t> known;
    for (std::size_t row = 0; row < learned.rows(); ++row) known.insert(learned.file_row(row));
    for (std::size_t row = 0; row < judged.rows(); ++row) {
      if (!known.contains(judged.file_row(row))) continue;
      refuse(
          "row {} is a test row and a train row, so heads would be tested on rows they learned from; give each row "
          "to one of them",
          judged.file_row(row));
    }
    return;
  }
  if (train.begin < test.end && test.begin < train.end) {
    refuse(
        "the test rows {}:{} overlap the train rows {}:{}, so heads would be tested on rows they learned from; give "
        "ranges that do not overlap",
        test.begin, test.end, train.begin, train.end);
  }
}

RowRange cut(RowRange range, std::size_t rows, std::string_view what) {
  if (range.end == RowRange::kEnd) range.end = rows;
  if (range.begin >= range.end || range.end > rows) {
    refuse("the {} rows {}:{} are not in the files, which have {} rows", what, range.begin, range.end, rows);
  }
  return range;
}

/// Every class of the test rows must also be in the train rows.
void require_labels(const StitchData& data) {
  const std::size_t rows = data.spaces.front().source().rows();
  if (data.labels.size() != rows) {
    refuse("there are {} labels for {} rows; give one label for each row of the spaces' files", data.labels.size(),
           rows);
  }
  const std::string train = shown(data.train, data.train_ids);
  const std::vector<std::int64_t> learned = labels_of(data, part_of(data.spaces.front(), data.train, data.train_ids));
  const std::set<std::int64_t> known(learned.begin(), learned.end());
  if (known.size() < 2) {
    refuse("all train rows {} have the label {}; a classifier needs two classes or more", train, *known.begin());
  }
  const Space judged = part_of(data.spaces.front(), data.test, data.test_ids);
  const std::vector<std::int64_t> labels = labels_of(data, judged);
  for (std::size_t row = 0; row < labels.size(); ++row) {
    if (known.contains(labels[row])) continue;
    refuse(
        "the label {} of test row {} occurs nowhere in the train rows {}, so no head can learn it; put rows of that "
        "class into the train rows, or leave it out of the test rows",
        labels[row], judged.file_row(row), train);
  }
}

/// Each method takes the options that belong to its maps. Kernel options that no method takes are a mistake.
void require_kernel_used(const StitchOptions& options) {
  std::vector<std::string> names;
  for (const StitchMethod& method : options.methods) names.push_back(to_string(method));
  for (const FitArguments& point : options.points) {
    const auto by_kernel = [&](const StitchMethod& method) { return way_of(method, point) == AttachBy::kernel; };
    if (point.kernel == KernelOptions{} || std::ranges::any_of(options.methods, by_kernel)) continue;
    refuse(
        "a width, strength or whitening of a kernel was given, but no method makes maps by kernel: {}; name one with "
        "-kernel at the end, such as consensus-kernel, or leave out what is for a kernel",
        fmt::join(names, ", "));
  }
}

void require_options(const StitchData& data, const StitchOptions& options) {
  require_valid(options.head);
  for (const FitArguments& point : options.points) {
    if (point.attach_by || point.keep || point.keep_rows || !point.param.checkpoint.path.empty()) {
      refuse(
          "stitch does not support attach, keep, keep-rows or checkpoints of a fit; name methods with -ridge or "
          "-kernel instead");
    }
  }
  if (options.methods.empty()) refuse("no method was given");
  if (options.seeds.empty()) refuse("no seed was given; give 1 or more");
  if (options.points.empty()) refuse("nothing to run: give at least one number of anchors");
  require_kernel_used(options);
  for (const std::string& name : options.hold_out) {
    const auto named = [&](const Space& space) { return space.name() == name; };
    if (std::ranges::any_of(data.spaces, named)) continue;
    std::vector<std::string> names;
    for (const Space& space : data.spaces) names.push_back(space.name());
    refuse("asked to hold out '{}', but the spaces are: {}", name, fmt::join(names, ", "));
  }
}

/// What the report can draw.
void require_picture(const StitchData& data) {
  const auto& shape = data.target_shape;
  if (!data.targets) refuse("targets have the shape {}, but there are no targets", fmt::join(shape, "x"));
  const bool gray = shape.size() == 2;
  const bool colour = shape.size() == 3 && (shape.front() == 3 || shape.back() == 3);
  if (!gray && !colour) {
    refuse("targets have the shape {}, expected height x width, with 3 before or after them for colours",
           fmt::join(shape, "x"));
  }
  std::size_t values = 1;
  for (const std::size_t size : shape) values = checked_mul(values, size);
  if (values == data.targets->cols()) return;
  refuse("a target of shape {} has {} values, but the rows of {} have {}", fmt::join(shape, "x"), values,
         data.targets->label(), data.targets->cols());
}

Matrix read_targets(const StitchData& data, RowRange range, const RowIds& rows) {
  return part_of(Space("targets", data.targets), range, rows).read_all();
}

/// The range of rows, cut to those there are; with ids, the smallest range that holds them.
RowRange checked_range(const StitchData& data, RowRange range, const RowIds& rows, std::string_view what) {
  if (rows.ids.empty()) return cut(range, data.spaces.front().source().rows(), what);
  return data.spaces.front().with_rows(rows).range();
}

}  // namespace

StitchData checked(StitchData data, const StitchOptions& options) {
  if (data.spaces.size() < 2) refuse("stitching needs two spaces or more, but {} was given", data.spaces.size());
  require_parallel(data.spaces);
  const std::size_t rows = data.spaces.front().source().rows();
  data.train = checked_range(data, data.train, data.train_ids, "train");
  data.test = checked_range(data, data.test, data.test_ids, "test");
  require_apart(data);
  if (part_of(data.spaces.front(), data.test, data.test_ids).rows() < 2)
    refuse("one test row cannot be told from others; give two or more");
  require_options(data, options);
  if (!data.labels.empty()) {
    require_classifier(options.head.kind);
    require_labels(data);
  }
  if (data.targets && data.targets->rows() != rows) {
    throw Error(Code::bad_file, fmt::format("{}: there are {} rows of targets for {} rows of the spaces",
                                            data.targets->label(), data.targets->rows(), rows));
  }
  if (!data.target_shape.empty()) require_picture(data);
  return data;
}

std::vector<std::string> warnings_of_train_rows(const StitchData& data) {
  std::vector<Space> train;
  std::vector<std::string> names;
  for (const Space& space : data.spaces) {
    train.push_back(part_of(space, data.train, data.train_ids));
    names.push_back(space.name());
  }
  return explain(check_rows(train), names, train.front().rows());
}

StitchContext::StitchContext(const StitchData& data, const StitchOptions& options) : data_(data), options_(options) {
  for (const Space& space : data.spaces) {
    train_.push_back(part_of(space, data.train, data.train_ids));
    test_.push_back(part_of(space, data.test, data.test_ids));
  }
  train_labels_ = labels_of(data, train_.front());
  test_labels_ = labels_of(data, test_.front());
  if (!data.targets) return;
  train_targets_ = read_targets(data, data.train, data.train_ids);
  test_targets_ = read_targets(data, data.test, data.test_ids);
  const auto cells = as_eigen(train_targets_.view());
  target_range_ = cells.maxCoeff() - cells.minCoeff();
  if (!(target_range_ > 0)) refuse("all train targets are the same; there is nothing to decode");
}

StitchPoint StitchContext::point(std::size_t index) const {
  return point_of(options_.points[index], train_.front().rows());
}

std::shared_ptr<const Statistics> StitchContext::statistics(std::size_t space, const FitOptions& point,
                                                            bool whitened) const {
  Entry* entry = nullptr;
  {
    const std::scoped_lock lock(lock_);
    entry = &cache_[{space, point.shrinkage_rule, point.whitening.shrinkage, point.whitening.epsilon, point.device,
                     whitened}];
  }
  std::call_once(entry->once, [&] {
    std::optional<OneThread> alone;
    if (point.device == Device::cpu) alone.emplace();
    const Statistics read = read_statistics(train_[space], point);
    entry->statistics = std::make_shared<Statistics>(whitened ? read.whitened() : read);
  });
  return entry->statistics;
}

}  // namespace kedge
