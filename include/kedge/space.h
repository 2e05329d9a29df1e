// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>
#include <kedge/rows.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kedge {

/// One encoder's embeddings, with a name: some rows of a file or a matrix. Cheap to copy.
class Space {
 public:
  /// Throws Error(Code::bad_argument) for an empty name, a name a bundle cannot hold, or a range outside the rows.
  Space(std::string name, std::shared_ptr<const RowSource> source, RowRange range = {});
  /// Throws Error(Code::bad_argument) as well for no ids, one outside the file or repeated, or a mask of other length.
  Space(std::string name, std::shared_ptr<const RowSource> source, RowIds rows);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const RowSource& source() const { return *source_; }
  [[nodiscard]] std::size_t rows() const { return ids_ ? ids_->size() : range_.end - range_.begin; }
  [[nodiscard]] std::size_t dim() const { return source_->cols(); }
  /// The smallest range that holds all rows.
  [[nodiscard]] RowRange range() const { return range_; }
  /// Whether the rows are all of that range, in order.
  [[nodiscard]] bool is_range() const { return !ids_; }
  /// The number in the file of the row `row` of the space.
  [[nodiscard]] std::int64_t file_row(std::size_t row) const {
    return ids_ ? (*ids_)[row] : static_cast<std::int64_t>(range_.begin + row);
  }
  /// The rows of the space that have these numbers in the file.
  /// Throws Error(Code::bad_argument) for a number that is not among them.
  [[nodiscard]] std::vector<std::size_t> find(std::span<const std::int64_t> file_rows) const;

  /// Other rows of the same file, under the same name.
  [[nodiscard]] Space with_rows(RowRange range) const { return {name_, source_, range}; }
  [[nodiscard]] Space with_rows(RowIds rows) const { return {name_, source_, std::move(rows)}; }

  /// Rows [first, first + out.rows) of the space. Throws Error(Code::bad_file) that names the file's row if a value is
  /// NaN, infinite, or too large for the type, and Error(Code::bad_argument) for rows or a width it does not have.
  void read(std::size_t first, MatrixView<float> out) const;
  void read(std::size_t first, MatrixView<double> out) const;
  [[nodiscard]] Matrix read_all() const;
  /// The rows with these numbers, counted in the file and not in the space, in this order.
  /// Throws Error(Code::bad_argument) for a number outside the file.
  [[nodiscard]] Matrix64 gather(std::span<const std::int64_t> file_rows) const;

 private:
  std::string name_;
  std::shared_ptr<const RowSource> source_;
  RowRange range_;
  std::shared_ptr<const std::vector<std::int64_t>> ids_;  ///< none if the rows are the range
};

/// Throws Error(Code::bad_argument) for a name bundles cannot hold: empty, not UTF-8, with '=', '#' or a control code.
void require_space_name(const std::string& name);

/// Throws Error(Code::bad_file) unless all spaces have the same number of rows, and Error(Code::bad_argument) unless
/// there is a space, all names differ and the rows have the same numbers in every file.
void require_parallel(std::span<const Space> spaces);

/// Parallel spaces of rows that stand in any order: `pairs` holds a row number of each space's file, in the order of
/// the spaces, pair after pair. The rows get the numbers that they have in the first file, where each may be in one
/// pair only, and stand in that order. Throws Error(Code::bad_argument) that names the pair for anything else.
[[nodiscard]] std::vector<Space> pair_rows(std::span<const Space> spaces, std::span<const std::int64_t> pairs);
/// The same for one space: each pair holds the number that a row is to have, and its own in the file.
[[nodiscard]] Space pair_rows(const Space& space, std::span<const std::int64_t> pairs);

}  // namespace kedge
