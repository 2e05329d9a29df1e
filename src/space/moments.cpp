// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "base/wording.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "space/sum_rows.h"

#include <fmt/ranges.h>
#include <kedge/moments.h>

#include <algorithm>

namespace kedge {
namespace {

constexpr std::size_t kMostValues = std::size_t{1} << 20;  // whose products are 8 TB

std::string described(std::span<const Moments::Part> parts) {
  std::vector<std::string> texts;
  for (const Moments::Part& part : parts) texts.push_back(fmt::format("'{}' ({} values)", part.space, part.dim));
  return fmt::format("{}", fmt::join(texts, ", "));
}

/// Centred rows as the sums of higher order see them: how many, their squared lengths' sum, and their scatter times the
/// vector by which their centre moves.
struct Centred {
  std::size_t rows;
  double squares;
  Eigen::RowVectorXd turned;
};

/// Changes third and fourth sums of centred rows into those of the rows with `by` added to each.
void shift(const Centred& of, const Eigen::RowVectorXd& by, Eigen::Ref<Eigen::RowVectorXd> third, double& fourth) {
  const auto count = static_cast<double>(of.rows);
  const double far = by.squaredNorm();
  fourth += 4 * third.dot(by) + 2 * of.squares * far + 4 * of.turned.dot(by) + count * far * far;
  third += of.squares * by + 2 * of.turned + count * far * by;
}

/// Of the rows that make up a scatter, of which only the lower triangle is kept.
Centred centred_of(std::size_t rows, const Matrix64& scatter, std::size_t first, const Eigen::RowVectorXd& by) {
  const auto at = static_cast<Eigen::Index>(first);
  const auto own = as_eigen(scatter.view()).block(at, at, by.size(), by.size());
  const Eigen::VectorXd turned = own.selfadjointView<Eigen::Lower>() * by.transpose();
  return {rows, own.diagonal().sum(), turned.transpose()};
}

/// Adds the sums of centred rows to those about another centre, `by` away.
void add_fourth(MatrixView<const double> centred, const Eigen::RowVectorXd& by, Eigen::Ref<Eigen::RowVectorXd> third,
                double& fourth) {
  const Eigen::RowVectorXd lengths = as_eigen(centred).rowwise().squaredNorm().transpose();
  Eigen::RowVectorXd own_third = product(lengths, centred);
  double own_fourth = lengths.squaredNorm();
  const EigenRows<double> along = product(centred, by.transpose());
  shift({centred.rows, lengths.sum(), product(along.transpose(), centred)}, by, own_third, own_fourth);
  third += own_third;
  fourth += own_fourth;
}

}  // namespace

void Moments::set_parts(std::vector<Part> parts) {
  parts_ = std::move(parts);
  if (parts_.empty()) refuse("moments are of one space or more, but none was given");
  std::size_t dim = 0;
  for (const Part& part : parts_) {
    require_space_name(part.space);
    if (part.dim == 0) refuse("space '{}': its rows hold no values", part.space);
    if (&*std::ranges::find(parts_, part.space, &Part::space) != &part) {
      refuse("two spaces are called '{}'; give each its own name", part.space);
    }
    if (part.dim > kMostValues - dim) {
      refuse("space '{}': {} values are more than moments can hold; all spaces together may have {}", part.space,
             part.dim, kMostValues);
    }
    first_.push_back(dim);
    dim += part.dim;
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
    refuse("moments of {} need a mean of {} values and sums to match, found a mean of {} and products of {} x {}",
           described(parts_), width, mean.size(), scatter.rows(), scatter.cols());
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
  if (rows_ == 0) refuse("statistics need at least one row");
  Matrix64 result = std::move(scatter_);
  as_eigen(result.view()) /= static_cast<double>(rows_);
  mirror_lower(result.view());
  return result;
}

double Moments::total_variance() const {
  return as_eigen(scatter_.view()).diagonal().sum() / static_cast<double>(std::max<std::size_t>(1, rows_));
}

template <class T>
void Moments::require_rows(std::span<const MatrixView<const T>> rows) const {
  if (rows.size() != parts_.size()) {
    refuse("the moments are of {}, but rows of {} space(s) were given", described(parts_), rows.size());
  }
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].cols != parts_[i].dim) {
      refuse("space '{}': the moments are of rows of {} values, found {}", parts_[i].space, parts_[i].dim,
             rows[i].cols);
    }
    if (rows[i].rows != rows[0].rows) {
      refuse("the spaces must have the same rows: '{}' has {} rows, '{}' has {}", parts_[0].space, rows[0].rows,
             parts_[i].space, rows[i].rows);
    }
    for (std::size_t r = 0; r < rows[i].rows; ++r) {
      if (all_finite(rows[i].row(r))) continue;
      refuse(
          "space '{}': row {} holds a value that is NaN or infinite; remove that input from every space, or encode "
          "it again",
          parts_[i].space, r);
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
    add_and_overwrite(*this, block);
  }
}

void Moments::add(std::span<const MatrixView<const float>> rows, std::span<const std::int64_t> ids) {
  require_rows(rows);
  if (rows.empty()) return;
  support_.require_ids(ids, rows[0].rows);
  support_.add(ids, rows);
  add_blocks(rows);
}
void Moments::add(std::span<const MatrixView<const double>> rows) {
  require_rows(rows);
  if (rows.empty()) return;
  support_.require_ids({}, rows[0].rows);
  add_blocks(rows);
}

/// Chan's formula: centred sums stay accurate however far the mean is from zero.
void add_and_overwrite(Moments& moments, MatrixView<double> rows) {
  const Work work;
  const std::size_t dim = moments.dim(), before = moments.rows_;
  if (rows.cols != dim) {
    refuse("the moments are of {}, {} values in all, found rows of {}", described(moments.parts_), dim, rows.cols);
  }
  if (rows.rows == 0) return;
  const Eigen::RowVectorXd mean = column_means(rows);
  as_eigen(rows).rowwise() -= mean;
  const double weight = static_cast<double>(rows.rows) / static_cast<double>(before + rows.rows);
  const Eigen::RowVectorXd far = mean - as_eigen(moments.mean());
  const std::span<const double> between(far.data(), dim);
  moments.move_mean(between, weight);
  for (std::size_t i = 0; i < moments.fourth_.size(); ++i) {
    const Eigen::RowVectorXd by = (1 - weight) * as_eigen(moments.own(between, i));
    add_fourth(rows.middle_cols(moments.first_[i], moments.parts_[i].dim), by, as_eigen(moments.own(moments.third_, i)),
               moments.fourth_[i]);
  }
  const auto scatter = moments.scatter_.view();
  add_gram(scatter, Triangle::lower, rows);
  add_gram(scatter, Triangle::lower, {far.data(), 1, dim, dim}, static_cast<double>(before) * weight);
  moments.rows_ += rows.rows;
}

/// To where it is if `weight` of all rows have a mean that is `between` away. The scatter is the caller's to complete.
void Moments::move_mean(std::span<const double> between, double weight) {
  for (std::size_t i = 0; i < fourth_.size() && rows_ > 0; ++i) {
    const Eigen::RowVectorXd by = -weight * as_eigen(own(between, i));
    shift(centred_of(rows_, scatter_, first_[i], by), by, as_eigen(own(third_, i)), fourth_[i]);
  }
  as_eigen(std::span(mean_)) += weight * as_eigen(between);
}

void Moments::require_parts(std::span<const Part> parts) const {
  if (parts_.empty() || std::ranges::equal(parts_, parts)) return;
  refuse("moments of {} cannot be merged with those of {}; both must be of the same spaces, in the same order",
         described(parts_), described(parts));
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
  } else {
    merge_sums(other);
  }
}

void Moments::merge(Moments&& other) {
  if (!require_mergeable(other)) return;
  if (rows_ == 0) {
    *this = std::move(other);
  } else {
    merge_sums(other);
  }
}

void Moments::merge_sums(const Moments& other) {
  const Work work;
  support_.merge(other.support_);
  if (other.fourth_.empty()) {
    third_.clear();
    fourth_.clear();
  }
  const double weight = static_cast<double>(other.rows_) / static_cast<double>(rows_ + other.rows_);
  const Eigen::RowVectorXd far = as_eigen(other.mean()) - as_eigen(mean());
  const std::span<const double> between(far.data(), dim());
  move_mean(between, weight);
  for (std::size_t i = 0; i < fourth_.size(); ++i) {
    const Eigen::RowVectorXd by = (1 - weight) * as_eigen(own(between, i));
    Eigen::RowVectorXd third = as_eigen(own(other.third_, i));
    double fourth = other.fourth_[i];
    shift(centred_of(other.rows_, other.scatter_, first_[i], by), by, third, fourth);
    as_eigen(own(third_, i)) += third;
    fourth_[i] += fourth;
  }
  as_eigen(scatter_.view()) += as_eigen(other.scatter_.view());
  add_gram(scatter_.view(), Triangle::lower, {far.data(), 1, dim(), dim()}, static_cast<double>(rows_) * weight);
  rows_ += other.rows_;
}

std::size_t Moments::part_of(std::string_view space) const {
  const auto found = std::ranges::find(parts_, space, &Part::space);
  if (found != parts_.end()) return static_cast<std::size_t>(found - parts_.begin());
  std::vector<std::string> names;
  for (const Part& part : parts_) names.push_back(part.space);
  throw UnknownSpace(fmt::format("the moments have no space '{}'; they have: {}{}", space, fmt::join(names, ", "),
                                 did_you_mean(space, names)));
}

std::span<const double> Moments::mean(std::string_view space) const {
  return own(mean_, part_of(space));
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
  std::vector<Part> parts;
  std::vector<std::size_t> columns;  // of all, in the order of these spaces
  std::vector<double> fourth;
  for (const std::string& space : spaces) {
    const std::size_t part = part_of(space);
    parts.push_back(parts_[part]);
    for (std::size_t c = 0; c < parts_[part].dim; ++c) columns.push_back(first_[part] + c);
    if (!fourth_.empty()) fourth.push_back(fourth_[part]);
  }
  if (parts == parts_) return {std::move(parts), rows_, mean_, scatter_, third_, fourth_};
  std::vector<double> mean, third;
  Matrix64 scatter(columns.size(), columns.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    mean.push_back(mean_[columns[i]]);
    if (!third_.empty()) third.push_back(third_[columns[i]]);
    for (std::size_t j = 0; j <= i; ++j) {
      scatter.row(i)[j] = scatter_.row(std::max(columns[i], columns[j]))[std::min(columns[i], columns[j])];
    }
  }
  return {std::move(parts), rows_, std::move(mean), std::move(scatter), std::move(third), std::move(fourth)};
}

}  // namespace kedge
