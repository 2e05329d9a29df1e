// SPDX-License-Identifier: Apache-2.0
#include "base/refuse.h"
#include "base/wording.h"
#include "space/row_ids.h"

#include <fmt/format.h>
#include <kedge/draw.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

namespace kedge {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

/// The finalizer of splitmix64: one to one, and every bit of the result depends on every bit of the number.
constexpr std::uint64_t mix(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
  return bits ^ (bits >> 31);
}

constexpr std::uint64_t salt_of(std::uint64_t seed) {
  return mix(seed + 2 * kGolden);
}

constexpr std::uint64_t key_of(std::int64_t number, std::uint64_t salt) {
  return mix(mix(static_cast<std::uint64_t>(number) + kGolden) ^ salt);
}

/// FNV-1a, whose high bits alone would hardly depend on the last bytes.
std::int64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return static_cast<std::int64_t>(mix(hash) >> 1);
}

/// As a number is written and not otherwise: "7", but neither "07" nor "+7".
std::optional<std::int64_t> decimal(std::string_view text) {
  if (text.empty() || text.front() < '0' || text.front() > '9' || (text.front() == '0' && text.size() > 1)) return {};
  std::int64_t number = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (problem != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

std::string described(const SupportDraw& draw) {
  if (!draw.keeps_rows()) return "no support rows";
  if (!draw.wanted().empty()) return fmt::format("the rows of {} ids", draw.count());
  return fmt::format("{} support rows drawn with the seed {}", draw.count(), draw.seed());
}

}  // namespace

std::int64_t id_number(std::string_view text) {
  const std::optional<std::int64_t> number = decimal(text);
  return number ? *number : hash_of(text);
}

std::int64_t id_number(std::int64_t number) {
  return number >= 0 ? number : hash_of(fmt::format("{}", number));
}

std::uint64_t draw_key(std::int64_t number, std::uint64_t seed) {
  return key_of(number, salt_of(seed));
}

RepeatedId::RepeatedId(std::int64_t id)
    : Error(Code::bad_argument,
            fmt::format("id {} belongs to more than one row; give every row an id of its own, and add each row once",
                        id)),
      id_(id) {}

SupportDraw::SupportDraw(std::size_t count, std::uint64_t seed) : count_(count), seed_(seed) {
  if (count == 0) refuse("a support of 0 rows is none; draw 1 row or more");
}

SupportDraw::SupportDraw(std::vector<std::int64_t> wanted) : count_(wanted.size()), wanted_(std::move(wanted)) {
  if (wanted_.empty()) refuse("there are no ids of support rows; give one or more");
  place_of_.reserve(wanted_.size());
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (wanted_[i] < 0) refuse("support id {} is negative; ids of support rows are 0 or more", wanted_[i]);
    if (place_of_.emplace(wanted_[i], i).second) continue;
    refuse("support id {} is given more than once; each row may be used once", wanted_[i]);
  }
}

SupportDraw SupportDraw::without_rows() const {
  SupportDraw none;
  none.count_ = count_;
  none.seed_ = seed_;
  none.wanted_ = wanted_;
  none.place_of_ = place_of_;
  return none;
}

std::vector<std::int64_t> SupportDraw::ids() const {
  std::vector<std::int64_t> ids(kept_.size());
  std::ranges::transform(kept_, ids.begin(), &Place::id);
  return ids;
}

Matrix SupportDraw::rows(std::size_t first, std::size_t cols) const {
  Matrix in_order(kept_.size(), cols);
  for (std::size_t i = 0; i < kept_.size(); ++i) {
    std::copy_n(rows_.data() + kept_[i].at * dim_ + first, cols, in_order.row(i).begin());
  }
  return in_order;
}

/// Of the rows that come before the last one kept, in order, no more than can get in.
std::vector<SupportDraw::Place> SupportDraw::places(std::span<const std::int64_t> ids) const {
  const std::uint64_t salt = salt_of(seed_);
  std::uint64_t most = kept_.size() < count_ ? std::numeric_limits<std::uint64_t>::max() : kept_.back().key;
  std::vector<Place> found;
  const auto keep_smallest = [&] {
    std::ranges::sort(found);
    for (std::size_t i = 1; i < found.size(); ++i) {
      if (found[i].id == found[i - 1].id && found[i].key == found[i - 1].key) throw RepeatedId(found[i].id);
    }
    if (found.size() <= count_) return;
    found.resize(count_);
    most = std::min(most, found.back().key);
  };
  constexpr std::size_t kAtOnce = 8192;
  for (std::size_t row = 0; row < ids.size(); ++row) {
    std::uint64_t key = 0;
    if (wanted_.empty()) {
      key = key_of(ids[row], salt);
    } else {
      const auto place = place_of_.find(ids[row]);
      if (place == place_of_.end()) continue;
      key = place->second;
    }
    if (key > most) continue;
    found.push_back({key, ids[row], row});
    if (found.size() >= kAtOnce && found.size() / 2 >= count_) keep_smallest();
  }
  keep_smallest();
  return found;
}

std::vector<std::size_t> SupportDraw::choose(std::span<const std::int64_t> ids) const {
  if (!keeps_rows()) return {};
  std::vector<std::size_t> chosen;
  auto held = kept_.begin();
  for (const Place& place : places(ids)) {
    held = std::lower_bound(held, kept_.end(), Place{place.key, place.id, 0});
    if (held != kept_.end() && held->key == place.key && held->id == place.id) throw RepeatedId(place.id);
    const auto before = static_cast<std::size_t>(held - kept_.begin()) + chosen.size();
    if (before >= count_) break;  // in order, so that all others come after it
    chosen.push_back(place.at);
  }
  return chosen;
}

void SupportDraw::add(std::span<const std::int64_t> ids, std::span<const MatrixView<const float>> rows) {
  if (!keeps_rows()) return;
  std::size_t dim = 0;
  for (const MatrixView<const float>& space : rows) {
    dim += space.cols;
    if (space.rows == ids.size()) continue;
    refuse("there are {} ids, but {} rows; give one id for each row, in their order", ids.size(), space.rows);
  }
  if (dim_ != 0 && dim != dim_) refuse("support rows of {} values cannot join those of {}", dim, dim_);
  const std::vector<std::size_t> chosen = choose(ids);
  if (chosen.empty()) return;
  dim_ = dim;
  std::vector<Place> fresh;
  const std::uint64_t salt = salt_of(seed_);
  for (const std::size_t row : chosen) {
    const std::uint64_t key = wanted_.empty() ? key_of(ids[row], salt) : place_of_.at(ids[row]);
    fresh.push_back({key, ids[row], row});
  }
  put(fresh, rows);
}

/// Those that no longer are among the first make room.
void SupportDraw::put(std::span<const Place> chosen, std::span<const MatrixView<const float>> rows) {
  const std::size_t stay = std::min(kept_.size(), count_ - chosen.size());
  std::vector<Place> added(chosen.begin(), chosen.end());
  const std::size_t used = kept_.size();
  rows_.resize(std::max(used, stay + chosen.size()) * dim_);
  for (std::size_t i = 0; i < added.size(); ++i) {
    const bool again = stay + i < used;
    const std::size_t from = std::exchange(added[i].at, again ? kept_[stay + i].at : stay + i);
    auto* to = rows_.data() + added[i].at * dim_;
    for (const MatrixView<const float>& space : rows) to = std::ranges::copy(space.row(from), to).out;
  }
  kept_.resize(stay);
  std::vector<Place> all;
  all.reserve(stay + added.size());
  std::ranges::merge(kept_, added, std::back_inserter(all));
  kept_ = std::move(all);
}

void require_ids(const SupportDraw& draw, std::span<const std::int64_t> ids, std::size_t rows) {
  if (draw.keeps_rows() && ids.empty() && rows != 0) {
    refuse("the support is drawn by the ids of the rows, but these rows have none; give {}", option_words("ids"));
  }
  if (!draw.keeps_rows() && !ids.empty()) {
    refuse(
        "ids are what the support is drawn by, but no support was asked for; say how many rows with {}, or leave "
        "out {}",
        option_words("support"), option_words("ids"));
  }
  if (ids.empty() || ids.size() == rows) return;
  refuse("there are {} ids, but {} rows; give one id for each row, in their order", ids.size(), rows);
}

void SupportDraw::require_same(const SupportDraw& other) const {
  if (count_ == other.count_ && seed_ == other.seed_ && wanted_ == other.wanted_) return;
  if (!wanted_.empty() && !other.wanted_.empty()) {
    refuse("the ids of the support rows differ between the parts; give all parts the support ids of the same bundle");
  }
  refuse("one part keeps {}, another {}; sum up all parts with the same support and seed", described(*this),
         described(other));
}

void SupportDraw::merge(const SupportDraw& other) {
  require_same(other);
  if (other.kept_.empty()) return;
  std::vector<std::int64_t> ids(other.kept_.size());
  for (const Place& place : other.kept_) ids[place.at] = place.id;
  const MatrixView<const float> rows{other.rows_.data(), ids.size(), other.dim_, other.dim_};
  add(ids, {&rows, 1});
}

}  // namespace kedge
