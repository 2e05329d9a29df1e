// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "io/byte_source.h"

#include <kedge/draw.h>
#include <kedge/rows.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <iterator>
#include <limits>

namespace kedge {
namespace {

constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

/// The finalizer of splitmix64: no two numbers give the same, and each bit of the result depends on every bit.
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

/// FNV-1a, then mixed, because its high bits hardly depend on the last bytes.
std::int64_t hash_of(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return static_cast<std::int64_t>(mix(hash) >> 1);
}

/// Only of a number as it is usually written: "7", but neither "07" nor "+7".
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

/// Calls `each` with every line and its number. Memory grows with the longest line, not with the file.
void read_lines(const std::string& path, const std::function<void(std::string_view, std::size_t)>& each) {
  const io::InputFile file(path);
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::string held;
  std::size_t line = 0;
  const auto take = [&](std::string_view text) {
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) refuse_file("{}: line {} is empty; write one id on every line", path, line + 1);
    each(text, line++);
  };
  for (std::size_t offset = 0; offset < file.size();) {
    const std::size_t before = held.size(), count = std::min(kBlock, file.size() - offset);
    held.resize(before + count);
    file.read(offset, std::as_writable_bytes(std::span(held)).subspan(before));
    offset += count;
    std::size_t first = 0;
    for (std::size_t end = held.find('\n', before); end != std::string::npos; end = held.find('\n', first)) {
      take(std::string_view(held).substr(first, end - first));
      first = end + 1;
    }
    held.erase(0, first);
  }
  if (!held.empty()) take(held);
}

}  // namespace

std::int64_t id_number(std::string_view text) {
  const std::optional<std::int64_t> number = decimal(text);
  return number ? *number : hash_of(text);
}

std::int64_t id_number(std::int64_t number) {
  return number >= 0 ? number : hash_of(fmt::format("{}", number));
}

std::vector<std::int64_t> read_ids(const std::string& path) {
  std::vector<std::int64_t> ids;
  if (path.ends_with(".txt")) {
    read_lines(path, [&](std::string_view text, std::size_t) { ids.push_back(id_number(text)); });
  } else {
    ids = read_integers(path);
    for (std::int64_t& id : ids) id = id_number(id);
  }
  if (ids.empty()) refuse_file("{}: it holds no ids", path);
  return ids;
}

IdPlaces find_id(const std::string& path, std::int64_t number) {
  IdPlaces found;
  const auto look = [&](const auto& id, std::size_t row) {
    if (id_number(id) != number) return;
    if (found.rows.empty()) found.text = fmt::format("{}", id);
    found.rows.push_back(row);
  };
  if (path.ends_with(".txt")) {
    read_lines(path, look);
  } else {
    const std::vector<std::int64_t> ids = read_integers(path);
    for (std::size_t row = 0; row < ids.size(); ++row) look(ids[row], row);
  }
  return found;
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
  if (wanted_.empty()) return keeps_rows() ? SupportDraw(count_, seed_) : SupportDraw();
  return SupportDraw(wanted_);
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

/// The rows that come before the last one kept, in order, and no more of them than can get in.
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

/// The rows that get in, in order.
std::vector<SupportDraw::Place> SupportDraw::choose_places(std::span<const std::int64_t> ids) const {
  if (!keeps_rows()) return {};
  std::vector<Place> chosen;
  auto held = kept_.begin();
  for (const Place& place : places(ids)) {
    held = std::lower_bound(held, kept_.end(), Place{place.key, place.id, 0});
    if (held != kept_.end() && held->key == place.key && held->id == place.id) throw RepeatedId(place.id);
    const auto before = static_cast<std::size_t>(held - kept_.begin()) + chosen.size();
    if (before >= count_) break;  // all others come after it
    chosen.push_back(place);
  }
  return chosen;
}

std::vector<std::size_t> SupportDraw::choose(std::span<const std::int64_t> ids) const {
  std::vector<std::size_t> chosen;
  for (const Place& place : choose_places(ids)) chosen.push_back(place.at);
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
  std::vector<Place> added = choose_places(ids);
  if (added.empty()) return;
  dim_ = dim;
  // Rows that are no longer among the first make room.
  const std::size_t used = kept_.size(), stay = std::min(used, count_ - added.size());
  rows_.resize(std::max(used, stay + added.size()) * dim_);
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

void SupportDraw::require_ids(std::span<const std::int64_t> ids, std::size_t rows) const {
  if (keeps_rows() && ids.empty() && rows != 0) {
    refuse("the support is drawn by the ids of the rows, but these rows have none; give {}", option_words("ids"));
  }
  if (!keeps_rows() && !ids.empty()) {
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
