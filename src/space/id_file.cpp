// SPDX-License-Identifier: Apache-2.0
#include "io/byte_source.h"

#include <fmt/format.h>
#include <kedge/draw.h>
#include <kedge/error.h>
#include <kedge/rows.h>

#include <algorithm>
#include <functional>

namespace kedge {
namespace {

bool is_text(const std::string& path) {
  return path.ends_with(".txt");
}

/// Calls `each` with every line and its number, without its end. Memory does not grow with the file, but with the
/// longest line.
void read_lines(const std::string& path, const std::function<void(std::string_view, std::size_t)>& each) {
  const io::InputFile file(path);
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  std::string held;
  std::size_t line = 0;
  const auto take = [&](std::string_view text) {
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty()) {
      throw Error(Code::bad_file, fmt::format("{}: line {} is empty; write one id on every line", path, line + 1));
    }
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

std::vector<std::int64_t> read_ids(const std::string& path) {
  std::vector<std::int64_t> ids;
  if (is_text(path)) {
    read_lines(path, [&](std::string_view text, std::size_t) { ids.push_back(id_number(text)); });
  } else {
    ids = read_integers(path);
    for (std::int64_t& id : ids) id = id_number(id);
  }
  if (ids.empty()) throw Error(Code::bad_file, fmt::format("{}: it holds no ids", path));
  return ids;
}

IdPlaces find_id(const std::string& path, std::int64_t number) {
  IdPlaces found;
  const auto look = [&](std::int64_t own, std::string_view text, std::size_t row) {
    if (own != number) return;
    if (found.rows.empty()) found.text = text;
    found.rows.push_back(row);
  };
  if (is_text(path)) {
    read_lines(path, [&](std::string_view text, std::size_t line) { look(id_number(text), text, line); });
  } else {
    const std::vector<std::int64_t> ids = read_integers(path);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      if (id_number(ids[row]) == number) look(number, fmt::format("{}", ids[row]), row);
    }
  }
  return found;
}

}  // namespace kedge
