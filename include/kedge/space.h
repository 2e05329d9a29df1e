// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>
#include <kedge/rows.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace kedge {

/// One encoder's embeddings, with a name: a range of rows of a file or a matrix. Cheap to copy.
class Space {
 public:
  /// Throws Error(Code::bad_argument) for an empty name, a name a bundle cannot hold, or a range outside the rows.
  Space(std::string name, std::shared_ptr<const RowSource> source, RowRange range = {});

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const RowSource& source() const { return *source_; }
  [[nodiscard]] std::size_t rows() const { return range_.end - range_.begin; }
  [[nodiscard]] std::size_t dim() const { return source_->cols(); }
  [[nodiscard]] RowRange range() const { return range_; }

  /// Other rows of the same file, under the same name.
  [[nodiscard]] Space with_rows(RowRange range) const { return {name_, source_, range}; }

  /// Rows [first, first + out.rows) of the range. Throws Error(Code::bad_file) that names the file's row if a value is
  /// NaN, infinite, or too large for the type.
  void read(std::size_t first, MatrixView<float> out) const;
  void read(std::size_t first, MatrixView<double> out) const;
  /// The whole range.
  [[nodiscard]] Matrix read_all() const;
  /// The rows with these numbers, counted in the file and not in the range, in this order.
  /// Throws Error(Code::bad_argument) for a number outside the file.
  [[nodiscard]] Matrix64 gather(std::span<const std::int64_t> file_rows) const;

 private:
  std::string name_;
  std::shared_ptr<const RowSource> source_;
  RowRange range_;
};

/// Throws Error(Code::bad_argument) for a name a bundle cannot hold: empty, not UTF-8, with '=', '#' or control
/// characters.
void require_space_name(const std::string& name);

/// Throws Error(Code::bad_file) unless all spaces have the same number of rows, Error(Code::bad_argument) unless all
/// names differ and there is at least one.
void require_parallel(std::span<const Space> spaces);

}  // namespace kedge
