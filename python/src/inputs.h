// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings.h"

#include <kedge/matrix.h>
#include <kedge/rows.h>
#include <kedge/space.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge::python {

/// A matrix a caller gave: an array, which is read where it lies, or the path of a file. Made and destroyed with the
/// GIL held; may be read without it.
class Input {
 public:
  /// Throws Error(Code::bad_argument) for anything that is not a matrix of floats on the processor; what open_rows
  /// throws for a path. Messages say `whose` it is, and those about its rows call an array `label`.
  Input(nb::handle given, const std::string& whose, const std::string& label);

  [[nodiscard]] bool is_file() const { return !array_.is_valid(); }
  [[nodiscard]] const std::shared_ptr<const RowSource>& rows() const { return rows_; }
  /// Whether any of its values may lie within these bytes.
  [[nodiscard]] bool overlaps(const void* first, std::size_t bytes) const;
  /// Where the values already are float32, row by row.
  [[nodiscard]] std::optional<MatrixView<const float>> in_place() const;

 private:
  [[nodiscard]] bool take(nb::handle given, const std::string& label);

  nb::ndarray<nb::ro> array_;
  std::shared_ptr<const RowSource> rows_;
};

/// What an argument `rows` says.
struct RowChoice {
  RowRange range;
  RowIds ids;  ///< where there are any, they count

  [[nodiscard]] Space of(const std::string& name, std::shared_ptr<const RowSource> source) const;
};
/// None for all, a slice, a range, (first, end), 'first:end', row numbers or a mask.
[[nodiscard]] RowChoice to_rows(const nb::object& given, const char* label = "rows");

/// Several named matrices; what is wrong with one is called a wrong argument unless one of them is a file.
class Inputs {
 public:
  /// `given`: a list of (name, array or path).
  explicit Inputs(const nb::list& given);
  [[nodiscard]] std::vector<Space> spaces(const RowChoice& rows = {}) const;
  [[nodiscard]] bool any_file() const;

 private:
  std::vector<std::string> names_;
  std::vector<Input> inputs_;
};

/// All values, finite, as float32: in place where they are, else converted.
class Floats {
 public:
  /// Throws what Space::read throws. May be called without the GIL.
  Floats(const Input& input, const Space& space);
  [[nodiscard]] MatrixView<const float> view() const { return view_; }

 private:
  Matrix converted_;
  MatrixView<const float> view_;
};

/// One-dimensional whole numbers, copied.
using Integers = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
[[nodiscard]] std::vector<std::int64_t> to_vector(const Integers& values);

/// The id numbers that an argument `ids` says, one for each row; none where it is None.
[[nodiscard]] std::vector<std::int64_t> to_ids(const nb::object& given);

/// What an argument `pairs` says: so many row numbers for each pair, pair after pair; `what` says which in messages.
[[nodiscard]] std::vector<std::int64_t> to_pairs(const nb::object& given, std::size_t columns, const char* what);

/// Whether a path names a Parquet file, or a column of one.
[[nodiscard]] bool is_parquet(std::string_view path);

}  // namespace kedge::python
