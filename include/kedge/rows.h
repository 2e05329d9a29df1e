// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge {

/// Half-open range of rows, as in `--rows 0:50000`; by default all of them.
struct RowRange {
  static constexpr std::size_t kEnd = std::numeric_limits<std::size_t>::max();
  std::size_t begin = 0;
  std::size_t end = kEnd;
};

/// Any rows of a file, by their numbers and in this order.
struct RowIds {
  std::vector<std::int64_t> ids;
  std::optional<std::size_t> of;  ///< how many rows the file must have, if a mask says so
};

/// A matrix whose rows are read in blocks, from a file or from memory. Safe to read from several threads.
class RowSource {
 public:
  virtual ~RowSource() = default;
  [[nodiscard]] virtual std::size_t rows() const = 0;
  [[nodiscard]] virtual std::size_t cols() const = 0;
  /// What messages call it, e.g. the file's path.
  [[nodiscard]] virtual const std::string& label() const = 0;
  /// The path of the file it reads, which no result may overwrite; empty for rows in memory.
  [[nodiscard]] virtual std::string file() const { return ""; }
  /// Whether float32 holds every value exactly.
  [[nodiscard]] virtual bool fits_float32() const { return false; }
  /// Where a row stands in the file, if it is there: elsewhere only for rows that pair_rows() numbered anew.
  [[nodiscard]] virtual std::optional<std::size_t> place_of(std::size_t row) const {
    return row < rows() ? std::optional(row) : std::nullopt;
  }
  /// Copies out.rows rows, converted. Throws Error(Code::bad_argument) for rows it lacks, or another width than cols().
  void read(std::size_t first, MatrixView<float> out) const;
  void read(std::size_t first, MatrixView<double> out) const;

 private:
  /// read(), once it has checked what is asked for.
  virtual void copy_rows(std::size_t first, MatrixView<float> out) const = 0;
  virtual void copy_rows(std::size_t first, MatrixView<double> out) const = 0;
};

/// Opens a matrix of numbers: `.npy`, `.fvecs`, or `.safetensors#tensor` (the tensor may be left out if there is only
/// one). Throws Error(Code::bad_file) for anything it cannot trust.
[[nodiscard]] std::shared_ptr<const RowSource> open_rows(const std::string& path);
/// The same for rows with a shape of their own, such as pictures: each becomes one row of values.
struct ShapedRows {
  std::shared_ptr<const RowSource> rows;
  std::vector<std::size_t> shape;  ///< of a row; empty for a plain row of values
};
[[nodiscard]] ShapedRows open_shaped_rows(const std::string& path);
/// Rows that stay in the caller's memory, which must outlive the source.
[[nodiscard]] std::shared_ptr<const RowSource> view_rows(MatrixView<const float> matrix, std::string label);
[[nodiscard]] std::shared_ptr<const RowSource> view_rows(MatrixView<const double> matrix, std::string label);

/// Values in the caller's memory as numpy or DLPack describe them: any float type, any strides.
struct ArrayView {
  enum class Type { f16, bf16, f32, f64, u8 };
  const void* data = nullptr;  ///< the value of row 0, column 0; need not be aligned
  Type type = Type::f32;
  std::size_t rows = 0, cols = 0;
  /// From one to the next; may be 0 or negative, as for numpy's broadcast and reversed arrays.
  std::ptrdiff_t row_bytes = 0, col_bytes = 0;
  bool swapped = false;  ///< bytes of each value in the other order than this machine's
};
/// The memory must outlive the source.
[[nodiscard]] std::shared_ptr<const RowSource> view_rows(ArrayView array, std::string label);

/// Reads a one-dimensional array of integers of any width (row numbers, labels) from `.npy` or `.safetensors#tensor`.
[[nodiscard]] std::vector<std::int64_t> read_integers(const std::string& path);

/// The same for rows of `cols` integers, one row after the other. Throws Error(Code::bad_file) for any other shape or
/// type, with `what` a row should hold.
[[nodiscard]] std::vector<std::int64_t> read_integer_rows(const std::string& path, std::size_t cols, const char* what);

/// Rows by their numbers, or by a mask with a boolean for each row, from the same kinds of file.
[[nodiscard]] RowIds read_row_ids(const std::string& path);

/// Streams float32 rows into an `.npy` file that appears, whole, on finish() and never otherwise.
class RowWriter {
 public:
  /// Throws Error(Code::failed) if the file cannot be created there.
  RowWriter(const std::string& path, std::size_t rows, std::size_t cols);
  ~RowWriter();
  RowWriter(RowWriter&&) noexcept;
  RowWriter& operator=(RowWriter&&) noexcept;

  /// Rows [first, first + block.rows); any order, any thread. Fastest at multiples of kAlignment from aligned memory.
  void write(std::size_t first, MatrixView<const float> block);
  /// Puts the file in its place. If it `replaces_input`, whose rows are nowhere else, it waits for the disk first, so
  /// that a power cut leaves one or the other. Throws Error(Code::failed) if rows are missing.
  void finish(bool replaces_input = false);

  static constexpr std::size_t kAlignment = 1024;  ///< rows

 private:
  struct File;
  std::unique_ptr<File> file_;
};

/// Throws Error(Code::failed) if no file can be written there, before long work rather than after it. Keep what it
/// returns until the result is written: it may be an open pipe, and closing that tells its reader that it is complete.
[[nodiscard]] std::shared_ptr<const void> require_writable(const std::string& path);

/// Writes a whole matrix, or a vector, as `.npy`.
void save_npy(const std::string& path, MatrixView<const float> matrix);
void save_npy(const std::string& path, std::span<const float> values);
/// Rows of `cols` integers, as read_integer_rows() gives them.
void save_npy(const std::string& path, std::span<const std::int64_t> values, std::size_t cols);

/// Replaces the file at once or not at all.
void save_text(const std::string& path, std::string_view text);

}  // namespace kedge
