// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"

#include <kedge/space.h>

#include <algorithm>
#include <limits>
#include <numeric>

namespace kedge {
namespace {

using Numbered = std::pair<std::size_t, std::size_t>;  // the number that a row gets, and its own in the file

/// The rows of a space's file under other numbers. A row that no pair names is NaN: only who judges rows tries those.
class PairedSource final : public RowSource {
 public:
  /// `numbered` is in the order of the numbers, which are below `rows`.
  PairedSource(Space space, std::size_t rows, std::vector<Numbered> numbered)
      : space_(std::move(space)), rows_(rows), numbered_(std::move(numbered)) {}
  std::size_t rows() const override { return rows_; }
  std::size_t cols() const override { return space_.dim(); }
  const std::string& label() const override { return space_.source().label(); }
  std::string file() const override { return space_.source().file(); }
  bool fits_float32() const override { return space_.source().fits_float32(); }
  std::optional<std::size_t> place_of(std::size_t row) const override {
    const auto found = std::ranges::lower_bound(numbered_, row, {}, &Numbered::first);
    return found != numbered_.end() && found->first == row ? std::optional(found->second) : std::nullopt;
  }

 private:
  void copy_rows(std::size_t first, MatrixView<float> out) const override { read_as(first, out); }
  void copy_rows(std::size_t first, MatrixView<double> out) const override { read_as(first, out); }

  /// Forwards through the file, and rows that follow each other in both at once.
  template <class T>
  void read_as(std::size_t first, MatrixView<T> out) const {
    std::vector<std::pair<std::size_t, std::size_t>> places;  // in the file, and in `out`
    for (std::size_t r = 0; r < out.rows; ++r) {
      std::ranges::fill(out.row(r), std::numeric_limits<T>::quiet_NaN());
      if (const auto place = place_of(first + r)) places.emplace_back(*place, r);
    }
    std::ranges::sort(places);
    for (std::size_t i = 0, count = 1; i < places.size(); i += count, count = 1) {
      const auto [row, to] = places[i];
      while (i + count < places.size() && places[i + count] == std::pair(row + count, to + count)) ++count;
      space_.source().read(row, out.middle_rows(to, count));
    }
  }

  Space space_;
  std::size_t rows_;
  std::vector<Numbered> numbered_;
};

/// Rows of as many numbers as there are columns.
struct Pairs {
  std::span<const std::int64_t> numbers;
  std::size_t columns;

  [[nodiscard]] std::size_t size() const { return numbers.size() / columns; }
  [[nodiscard]] std::span<const std::int64_t> operator[](std::size_t pair) const {
    return numbers.subspan(pair * columns, columns);
  }
};

void require_rows(const Pairs& pairs, std::size_t column, const Space& space) {
  if (!space.is_range() || space.rows() != space.source().rows()) {
    refuse("space '{}': {} say which rows of it to take, so that {} cannot be given too; leave out one of them",
           space.name(), option_words("pairs"), option_words("rows"));
  }
  for (std::size_t pair = 0; pair < pairs.size(); ++pair) {
    const std::int64_t row = pairs[pair][column];
    if (row >= 0 && static_cast<std::size_t>(row) < space.source().rows()) continue;
    refuse("pair {} names row {} of space '{}', but {} has rows 0:{}; rows are counted from 0", pair, row, space.name(),
           space.source().label(), space.source().rows());
  }
}

/// The pairs in the order of their first numbers, each of which must be there once: it is what a bundle knows a row by.
std::vector<std::size_t> order_of(const Pairs& pairs) {
  if (pairs.numbers.empty()) refuse("there are no pairs; give one or more, each with a row number of every space");
  if (pairs.numbers.size() % pairs.columns != 0) {
    refuse("each pair must hold {} row numbers, but {} were given in all", pairs.columns, pairs.numbers.size());
  }
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto number = [&](std::size_t pair) { return pairs[pair].front(); };
  std::ranges::stable_sort(order, {}, number);
  const auto repeated = std::ranges::adjacent_find(order, {}, number);
  if (repeated == order.end()) return order;
  const std::size_t one = repeated[0], other = repeated[1];
  if (std::ranges::equal(pairs[one], pairs[other])) refuse("pairs {} and {} are the same; give each once", one, other);
  refuse(
      "pairs {} and {} both begin with row {}, but a row of the first column may be in one pair only, as bundles know "
      "rows by its number; let a space come first whose rows are in one pair each, or keep one of these pairs",
      one, other, number(one));
}

Space paired(const Space& space, const Pairs& pairs, std::size_t column, const std::vector<std::size_t>& order,
             std::size_t rows) {
  require_rows(pairs, column, space);
  std::vector<Numbered> numbered;
  RowIds numbers;
  for (const std::size_t pair : order) {
    numbers.ids.push_back(pairs[pair].front());
    numbered.push_back({static_cast<std::size_t>(pairs[pair].front()), static_cast<std::size_t>(pairs[pair][column])});
  }
  if (column == 0) return space.with_rows(std::move(numbers));
  return {space.name(), std::make_shared<PairedSource>(space, rows, std::move(numbered)), std::move(numbers)};
}

}  // namespace

std::vector<Space> pair_rows(std::span<const Space> spaces, std::span<const std::int64_t> numbers) {
  if (spaces.size() < 2) refuse("pairs are rows of two spaces or more, but there are {}", spaces.size());
  const Pairs pairs{numbers, spaces.size()};
  const std::vector<std::size_t> order = order_of(pairs);
  std::vector<Space> parallel;
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    parallel.push_back(paired(spaces[i], pairs, i, order, spaces.front().source().rows()));
  }
  return parallel;
}

Space pair_rows(const Space& space, std::span<const std::int64_t> numbers) {
  const Pairs pairs{numbers, 2};
  const std::vector<std::size_t> order = order_of(pairs);
  if (const std::int64_t least = pairs[order.front()].front(); least < 0) {
    refuse("pair {} begins with {}, which is no row number; rows are counted from 0", order.front(), least);
  }
  return paired(space, pairs, 1, order, static_cast<std::size_t>(pairs[order.back()].front()) + 1);
}

}  // namespace kedge
