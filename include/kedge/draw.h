// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/error.h>
#include <kedge/matrix.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace kedge {

/// The number that stands for an id: a whole number from 0 to 2^63 - 1 stands for itself, also as decimal text; for any
/// other text it is 63 bits of a hash of its bytes. docs/format.md has both in full.
[[nodiscard]] std::int64_t id_number(std::string_view text);
/// A negative number is hashed as text.
[[nodiscard]] std::int64_t id_number(std::int64_t number);

/// The numbers of the ids in a file, one for each row: the lines of a `.txt`, or integers in `.npy` or
/// `.safetensors#tensor`. Throws Error(Code::bad_file), also for an empty line.
[[nodiscard]] std::vector<std::int64_t> read_ids(const std::string& path);
/// Where an id is in such a file.
struct IdPlaces {
  std::vector<std::size_t> rows;  ///< counted from 0
  std::string text;               ///< the id as the first of them has it
};
[[nodiscard]] IdPlaces find_id(const std::string& path, std::int64_t number);

/// 64 bits that look random, and differ for any two ids. Rows with the smallest of them are a uniform sample.
[[nodiscard]] std::uint64_t draw_key(std::int64_t number, std::uint64_t seed);

/// Two rows have the same id.
class RepeatedId : public Error {
 public:
  explicit RepeatedId(std::int64_t id);
  [[nodiscard]] std::int64_t id() const { return id_; }

 private:
  std::int64_t id_;
};

/// Keeps the support rows out of rows that come in blocks: those with the smallest keys, or those with certain ids. The
/// result depends on the ids alone: not on the order of the rows, nor on which were added and which merged.
class SupportDraw {
 public:
  /// Keeps no rows.
  SupportDraw() = default;
  /// The `count` rows with the smallest draw_key(), in their order. Throws Error(Code::bad_argument) for 0.
  SupportDraw(std::size_t count, std::uint64_t seed);
  /// The rows with these ids, in this order. Throws Error(Code::bad_argument) for none, a negative one or two alike.
  explicit SupportDraw(std::vector<std::int64_t> wanted);

  [[nodiscard]] bool keeps_rows() const { return count_ != 0; }
  /// How many rows it keeps at most.
  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  /// The ids of the rows it keeps; empty if they are drawn.
  [[nodiscard]] std::span<const std::int64_t> wanted() const { return wanted_; }
  /// The same draw before its first row.
  [[nodiscard]] SupportDraw without_rows() const;

  /// How many rows there are so far.
  [[nodiscard]] std::size_t size() const { return kept_.size(); }
  [[nodiscard]] std::vector<std::int64_t> ids() const;
  /// Values of a row, of all spaces side by side; 0 before the first row.
  [[nodiscard]] std::size_t dim() const { return dim_; }
  /// Columns [first, first + cols) of the rows, in the order of ids().
  [[nodiscard]] Matrix rows(std::size_t first, std::size_t cols) const;
  [[nodiscard]] Matrix rows() const { return rows(0, dim_); }

  /// Which of the rows with these ids would get in, by place. Throws RepeatedId for one given twice or kept already.
  [[nodiscard]] std::vector<std::size_t> choose(std::span<const std::int64_t> ids) const;
  /// Adds parallel rows, one block for each space, which stand side by side. Throws RepeatedId, and
  /// Error(Code::bad_argument) for sizes that do not fit; then nothing has changed.
  void add(std::span<const std::int64_t> ids, std::span<const MatrixView<const float>> rows);
  /// Throws Error(Code::bad_argument) if the other keeps other rows, and RepeatedId.
  void merge(const SupportDraw& other);
  /// Throws Error(Code::bad_argument) unless both keep the same rows.
  void require_same(const SupportDraw& other) const;
  /// Throws Error(Code::bad_argument) unless there are as many ids as rows, or none if no rows are kept.
  void require_ids(std::span<const std::int64_t> ids, std::size_t rows) const;

 private:
  struct Place {
    std::uint64_t key = 0;
    std::int64_t id = 0;
    std::size_t at = 0;  ///< of a kept row in memory, of a new one in its block
    auto operator<=>(const Place&) const = default;
  };
  [[nodiscard]] std::vector<Place> places(std::span<const std::int64_t> ids) const;
  [[nodiscard]] std::vector<Place> choose_places(std::span<const std::int64_t> ids) const;

  std::size_t count_ = 0;
  std::uint64_t seed_ = 0;
  std::vector<std::int64_t> wanted_;
  std::unordered_map<std::int64_t, std::size_t> place_of_;  ///< of each id that is wanted
  std::vector<Place> kept_;                                 ///< ascending
  std::size_t dim_ = 0;
  std::vector<float> rows_;  ///< in the order in which they came; places that became free are used again
};

}  // namespace kedge
