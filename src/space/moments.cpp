// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "base/finite.h"
#include "base/wording.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "space/row_ids.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>
#include <kedge/moments.h>

#include <algorithm>
#include <utility>

namespace kedge {
namespace {

std::vector<std::string> names_of(std::span<const Moments::Part> parts) {
  std::vector<std::string> names;
  for (const Moments::Part& part : parts) names.push_back(part.space);
  return names;
}

std::string described(std::span<const Moments::Part> parts) {
  std::vector<std::string> texts;
  for (const Moments::Part& part : parts) texts.push_back(fmt::format("'{}' ({} values)", part.space, part.dim));
  return fmt::format("{}", fmt::join(texts, ", "));
}

constexpr std::size_t kMostValues = std::size_t{1} << 20;  // whose products are 8 TB

Eigen::Index index(std::size_t number) {
  return static_cast<Eigen::Index>(number);
}

/// What becomes of the third and fourth sums of some centred rows when their centre moves, and `by` is added to every
/// row: `turned` is their scatter times `by`, `squares` its trace.
void shift(std::size_t rows, double squares, const Eigen::RowVectorXd& turned, const Eigen::RowVectorXd& by,
           Eigen::Ref<Eigen::RowVectorXd> third, double& fourth) {
  const auto count = static_cast<double>(rows);
  const double far = by.squaredNorm();
  fourth += 4 * third.dot(by) + 2 * squares * far + 4 * turned.dot(by) + count * far * far;
  third += squares * by + 2 * turned + count * far * by;
}

/// One space's columns among all.
struct Columns {
  Eigen::Index first, dim;
};

/// The scatter of one space times a vector, out of its lower triangle.
Eigen::RowVectorXd turn(const Matrix64& scatter, Columns columns, const Eigen::RowVectorXd& by) {
  const auto own = as_eigen(scatter.view()).block(columns.first, columns.first, columns.dim, columns.dim);
  const Eigen::VectorXd turned = own.selfadjointView<Eigen::Lower>() * by.transpose();
  return turned.transpose();
}

double squares_of(const Matrix64& scatter, Columns columns) {
  return as_eigen(scatter.view()).diagonal().segment(columns.first, columns.dim).sum();
}

/// Adds the sums of centred rows to those about another centre, `by` away.
void add_fourth(MatrixView<const double> centred, const Eigen::RowVectorXd& by, Eigen::Ref<Eigen::RowVectorXd> third,
                double& fourth) {
  const auto rows = as_eigen(centred);
  const Eigen::RowVectorXd lengths = rows.rowwise().squaredNorm().transpose();
  Eigen::RowVectorXd own_third = product(lengths, centred);
  double own_fourth = lengths.squaredNorm();
  const EigenRows<double> along = product(centred, by.transpose());
  const Eigen::RowVectorXd turned = product(along.transpose(), centred);
  shift(centred.rows, lengths.sum(), turned, by, own_third, own_fourth);
  third += own_third;
  fourth += own_fourth;
}

}  // namespace

void Moments::set_parts(std::vector<Part> parts) {
  parts_ = std::move(parts);
  if (parts_.empty()) throw Error(Code::bad_argument, "moments are of one space or more, but none was given");
  std::size_t dim = 0;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    require_space_name(parts_[i].space);
    if (parts_[i].dim == 0) {
      throw Error(Code::bad_argument, fmt::format("space '{}': its rows hold no values", parts_[i].space));
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (parts_[i].space != parts_[j].space) continue;
      throw Error(Code::bad_argument,
                  fmt::format("two spaces are called '{}'; give each its own name", parts_[i].space));
    }
    if (parts_[i].dim > kMostValues - dim) {
      throw Error(Code::bad_argument, fmt::format("space '{}': {} values are more than moments can hold; all spaces "
                                                  "together may have {}",
                                                  parts_[i].space, parts_[i].dim, kMostValues));
    }
    first_.push_back(dim);
    dim += parts_[i].dim;
  }
  mean_.resize(dim);
}

Moments::Moments(std::vector<Part> parts, SupportDraw support) : support_(std::move(support)) {
  set_parts(std::move(parts));
  scatter_ = Matrix64(dim(), dim());
  third_.resize(dim());
  fourth_.resize(parts_.size());
}

Moments::Moments(std::vector<Part> parts, std::size_t rows, std::vector<double> mean, Matrix64 scatter,
                 std::vector<double> third, std::vector<double> fourth, SupportDraw support)
    : support_(std::move(support)) {
  set_parts(std::move(parts));
  const std::size_t width = dim();
  const bool known = !third.empty() || !fourth.empty();
  if (mean.size() != width || scatter.rows() != width || scatter.cols() != width ||
      (known && (third.size() != width || fourth.size() != parts_.size()))) {
    throw Error(Code::bad_argument,
                fmt::format("moments of {} need a mean of {} values and sums to match, found a mean "
                            "of {} and products of {} x {}",
                            described(parts_), width, mean.size(), scatter.rows(), scatter.cols()));
  }
  rows_ = rows;
  mean_ = std::move(mean);
  scatter_ = std::move(scatter);
  third_ = std::move(third);
  fourth_ = std::move(fourth);
}

Matrix64 Moments::covariance() const& {
  return Moments(parts_, rows_, mean_, scatter_, third_, fourth_).covariance();
}

Matrix64 Moments::covariance() && {
  if (rows_ == 0) throw Error(Code::bad_argument, "statistics need at least one row");
  Matrix64 result = std::move(scatter_);
  auto cells = as_eigen(result.view());
  cells /= static_cast<double>(rows_);
  mirror_lower(result.view());
  return result;
}

double Moments::total_variance() const {
  return as_eigen(scatter_.view()).diagonal().sum() / static_cast<double>(std::max<std::size_t>(1, rows_));
}

template <class T>
void Moments::require_rows(std::span<const MatrixView<const T>> rows) const {
  if (rows.size() != parts_.size()) {
    throw Error(Code::bad_argument, fmt::format("the moments are of {}, but rows of {} space(s) were given",
                                                described(parts_), rows.size()));
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].cols != parts_[i].dim) {
      throw Error(Code::bad_argument, fmt::format("space '{}': the moments are of rows of {} values, found {}",
                                                  parts_[i].space, parts_[i].dim, rows[i].cols));
    }
    if (rows[i].rows != rows[0].rows) {
      throw Error(Code::bad_argument, fmt::format("the spaces must have the same rows: '{}' has {} rows, '{}' has {}",
                                                  parts_[0].space, rows[0].rows, parts_[i].space, rows[i].rows));
    }
    for (std::size_t r = 0; r < rows[i].rows; ++r) {
      if (all_finite(rows[i].row(r))) continue;
      throw Error(Code::bad_argument,
                  fmt::format("space '{}': row {} holds a value that is NaN or infinite; remove that input from every "
                              "space, or encode it again",
                              parts_[i].space, r));
    }
  }
}

template <class T>
void Moments::add_blocks(std::span<const MatrixView<const T>> rows) {
  constexpr std::size_t kBlockValues = std::size_t{1} << 18;  // of float64: stays in a core's cache
  const std::size_t total = rows.empty() ? 0 : rows[0].rows;
  const std::size_t block_rows = std::clamp<std::size_t>(kBlockValues / std::max<std::size_t>(1, dim()), 1, 4096);
  Matrix64 buffer(std::min(block_rows, total), dim());
  for (std::size_t first = 0; first < total; first += block_rows) {
    const auto block = buffer.view().middle_rows(0, std::min(block_rows, total - first));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      as_eigen(block.middle_cols(first_[i], parts_[i].dim)) =
          as_eigen(rows[i].middle_rows(first, block.rows)).template cast<double>();
    }
    add_side_by_side(block);
  }
}

void Moments::add(std::span<const MatrixView<const float>> rows, std::span<const std::int64_t> ids) {
  require_rows(rows);
  if (rows.empty()) return;
  require_ids(support_, ids, rows[0].rows);
  support_.add(ids, rows);
  add_blocks(rows);
}
void Moments::add(std::span<const MatrixView<const double>> rows) {
  require_rows(rows);
  if (rows.empty()) return;
  require_ids(support_, {}, rows[0].rows);
  add_blocks(rows);
}

/// Chan's formula: centred sums stay accurate however far the mean is from zero.
void Moments::add_side_by_side(MatrixView<double> rows) {
  const Work work;
  if (rows.cols != dim()) {
    throw Error(Code::bad_argument, fmt::format("the moments are of {}, {} values in all, found rows of {}",
                                                described(parts_), dim(), rows.cols));
  }
  if (rows.rows == 0) return;
  auto block = as_eigen(rows);
  const Eigen::RowVectorXd mean = column_means(rows);
  block.rowwise() -= mean;
  const double weight = static_cast<double>(rows.rows) / static_cast<double>(rows_ + rows.rows);
  const Eigen::RowVectorXd between = mean - as_eigen(std::span(std::as_const(mean_)));
  move_mean(std::span(between.data(), dim()), weight);
  for (std::size_t i = 0; i < fourth_.size(); ++i) {
    const auto own = as_eigen(std::span(third_)).segment(index(first_[i]), index(parts_[i].dim));
    Eigen::RowVectorXd third = own;
    add_fourth(rows.middle_cols(first_[i], parts_[i].dim),
               (1 - weight) * between.segment(index(first_[i]), index(parts_[i].dim)), third, fourth_[i]);
    as_eigen(std::span(third_)).segment(index(first_[i]), index(parts_[i].dim)) = third;
  }
  add_gram(scatter_.view(), Triangle::lower, rows);
  add_gram(scatter_.view(), Triangle::lower, {between.data(), 1, dim(), dim()}, static_cast<double>(rows_) * weight);
  rows_ += rows.rows;
}

/// To where `weight` of all rows are `between` away from those here. The scatter is the caller's to complete.
void Moments::move_mean(std::span<const double> between, double weight) {
  const Eigen::RowVectorXd by = -weight * as_eigen(between);
  for (std::size_t i = 0; i < fourth_.size() && rows_ > 0; ++i) {
    const Columns columns{index(first_[i]), index(parts_[i].dim)};
    const Eigen::RowVectorXd own_by = by.segment(columns.first, columns.dim);
    Eigen::RowVectorXd third = as_eigen(std::span(third_)).segment(columns.first, columns.dim);
    shift(rows_, squares_of(scatter_, columns), turn(scatter_, columns, own_by), own_by, third, fourth_[i]);
    as_eigen(std::span(third_)).segment(columns.first, columns.dim) = third;
  }
  as_eigen(std::span(mean_)) -= by;
}

void Moments::require_parts(std::span<const Part> parts) const {
  if (parts_.empty() || std::ranges::equal(parts_, parts)) return;
  throw Error(
      Code::bad_argument,
      fmt::format("moments of {} cannot be merged with those of {}; both must be of the same spaces, in the same "
                  "order",
                  described(parts_), described(parts)));
}

/// Whether there is anything to add.
bool Moments::require_mergeable(const Moments& other) const {
  if (other.parts_.empty() && !other.support_.keeps_rows()) return false;
  if (parts_.empty() && !support_.keeps_rows()) return true;
  support_.require_same(other.support_);
  if (!other.parts_.empty()) require_parts(other.parts_);
  return other.rows_ != 0 || parts_.empty();
}

void Moments::merge(const Moments& other) {
  if (!require_mergeable(other)) return;
  if (rows_ == 0) {
    *this = other;
    return;
  }
  merge_sums(other);
}

void Moments::merge(Moments&& other) {
  if (!require_mergeable(other)) return;
  if (rows_ == 0) {
    *this = std::move(other);
    return;
  }
  merge_sums(other);
}

void Moments::merge_sums(const Moments& other) {
  const Work work;
  support_.merge(other.support_);
  if (other.fourth_.empty()) {
    third_.clear();
    fourth_.clear();
  }
  const double weight = static_cast<double>(other.rows_) / static_cast<double>(rows_ + other.rows_);
  const Eigen::RowVectorXd between = as_eigen(other.mean()) - as_eigen(mean());
  move_mean(std::span(between.data(), dim()), weight);
  for (std::size_t i = 0; i < fourth_.size(); ++i) {
    const Columns columns{index(first_[i]), index(parts_[i].dim)};
    const Eigen::RowVectorXd by = (1 - weight) * between.segment(columns.first, columns.dim);
    Eigen::RowVectorXd third = as_eigen(other.third()).segment(columns.first, columns.dim);
    double fourth = other.fourth_[i];
    shift(other.rows_, squares_of(other.scatter_, columns), turn(other.scatter_, columns, by), by, third, fourth);
    as_eigen(std::span(third_)).segment(columns.first, columns.dim) += third;
    fourth_[i] += fourth;
  }
  as_eigen(scatter_.view()) += as_eigen(other.scatter_.view());
  add_gram(scatter_.view(), Triangle::lower, {between.data(), 1, dim(), dim()}, static_cast<double>(rows_) * weight);
  rows_ += other.rows_;
}

std::size_t Moments::part_of(std::string_view space) const {
  const auto found = std::ranges::find(parts_, space, &Part::space);
  if (found != parts_.end()) return static_cast<std::size_t>(found - parts_.begin());
  const std::vector<std::string> names = names_of(parts_);
  throw UnknownSpace(fmt::format("the moments have no space '{}'; they have: {}{}", space, fmt::join(names, ", "),
                                 nearest(space, names) ? did_you_mean(space, names) : ""));
}

std::span<const double> Moments::mean(std::string_view space) const {
  const std::size_t part = part_of(space);
  return mean().subspan(first_[part], parts_[part].dim);
}

Matrix Moments::support_rows(std::string_view space) const {
  const std::size_t part = part_of(space);
  if (support_.size() == 0) return {0, parts_[part].dim};
  return support_.rows(first_[part], parts_[part].dim);
}

Moments Moments::of(std::string_view space) const {
  const std::string name(space);
  return of(std::span(&name, 1));
}

Moments Moments::of(std::span<const std::string> spaces) const {
  std::vector<std::size_t> from;
  std::vector<Part> parts;
  for (const std::string& space : spaces) {
    from.push_back(part_of(space));
    parts.push_back(parts_[from.back()]);
  }
  if (parts == parts_) return {std::move(parts), rows_, mean_, scatter_, third_, fourth_};
  Moments chosen(std::move(parts));
  chosen.rows_ = rows_;
  if (fourth_.empty()) {
    chosen.third_.clear();
    chosen.fourth_.clear();
  }
  const auto all = as_eigen(scatter_.view());
  auto cells = as_eigen(chosen.scatter_.view());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const auto at = static_cast<std::ptrdiff_t>(first_[from[i]]),
               dim = static_cast<std::ptrdiff_t>(parts_[from[i]].dim);
    std::copy_n(mean_.begin() + at, dim, chosen.mean_.begin() + static_cast<std::ptrdiff_t>(chosen.first_[i]));
    if (!fourth_.empty()) {
      std::copy_n(third_.begin() + at, dim, chosen.third_.begin() + static_cast<std::ptrdiff_t>(chosen.first_[i]));
      chosen.fourth_[i] = fourth_[from[i]];
    }
    for (std::size_t j = 0; j <= i; ++j) {
      const Eigen::Index other_at = index(first_[from[j]]), other_dim = index(parts_[from[j]].dim);
      auto to = cells.block(index(chosen.first_[i]), index(chosen.first_[j]), dim, other_dim);
      if (at >= other_at) {
        to = all.block(at, other_at, dim, other_dim);
      } else {
        to = all.block(other_at, at, other_dim, dim).transpose();
      }
    }
  }
  return chosen;
}

}  // namespace kedge
