// SPDX-License-Identifier: Apache-2.0
#include "base/file_version.h"

#include <fmt/format.h>
#include <kedge/version.h>

#include <algorithm>
#include <charconv>

namespace kedge {

std::string_view version() {
  return KEDGE_VERSION;
}

bool is_version(std::string_view text) {
  constexpr std::size_t kLongest = 64;
  constexpr std::string_view kSigns = ".+-_~";
  const auto usual = [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           kSigns.find(c) != std::string_view::npos;
  };
  return !text.empty() && text.size() <= kLongest && std::all_of(text.begin(), text.end(), usual);
}

std::string format_problem(std::string_view format, unsigned newest, std::string_view written_by) {
  unsigned number = 0;
  const auto [end, problem] = std::from_chars(format.data(), format.data() + format.size(), number);
  const bool whole = end == format.data() + format.size() && problem != std::errc::invalid_argument;
  if (!whole || (problem == std::errc() && number == 0)) {
    return fmt::format("it has format version {}, which no kedge has ever written; it is damaged", format);
  }
  if (problem == std::errc() && number <= newest) return "";
  const std::string claim = fmt::format("it has format version {}, but this is kedge {}, which reads versions up to {}",
                                        format, version(), newest);
  if (!is_version(written_by) || written_by == version()) return claim + "; use a newer kedge";
  return fmt::format("{}; it was written by kedge {}: use that or a newer one", claim, written_by);
}

}  // namespace kedge
