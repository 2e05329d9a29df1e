// SPDX-License-Identifier: Apache-2.0
#include "progress_line.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace kedge::cli {
namespace {

std::string time_left(double seconds) {
  const auto whole = static_cast<std::size_t>(std::lround(seconds));
  if (whole < 60) return fmt::format("{} s", whole);
  return fmt::format("{} min {:02} s", whole / 60, whole % 60);
}

/// Columns of the terminal; it may be resized at any time.
std::size_t terminal_width() {
  constexpr std::size_t kUsual = 80;
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const char* columns = std::getenv("COLUMNS");
  const long named = columns == nullptr ? 0 : std::strtol(columns, nullptr, 10);
  return named > 0 ? static_cast<std::size_t>(named) : kUsual;
}

/// Bytes of the character that begins with this one, and its columns. Chinese, Japanese, Korean and emoji take two;
/// combining marks are counted as well, which at worst leaves a column free.
std::pair<std::size_t, std::size_t> size_of_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  if (byte(0) < 0xc0) return {1, 1};
  const std::size_t bytes = std::min<std::size_t>(byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2, text.size());
  if (bytes == 4) return {bytes, 2};
  const unsigned code = bytes == 3 ? (byte(0) & 0xfU) << 12 | (byte(1) & 0x3fU) << 6 | (byte(2) & 0x3fU) : 0;
  constexpr std::array<std::pair<unsigned, unsigned>, 5> kWide{
      {{0x1100, 0x115f}, {0x2e80, 0xa4cf}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe30, 0xffe6}}};
  const bool wide = std::ranges::any_of(kWide, [&](auto range) { return code >= range.first && code <= range.second; });
  return {bytes, wide ? 2 : 1};
}

/// As much of the text as fits, and how many columns that takes.
std::pair<std::string_view, std::size_t> fitting(std::string_view text, std::size_t columns) {
  std::size_t end = 0, taken = 0;
  while (end < text.size()) {
    const auto [bytes, width] = size_of_character(text.substr(end));
    if (taken + width > columns) break;
    end += bytes;
    taken += width;
  }
  return {text.substr(0, end), taken};
}

std::size_t width_of(std::string_view text) {
  return fitting(text, text.size() * 2).second;
}

std::string bar(double share, std::size_t width) {
  const auto filled = static_cast<std::size_t>(share * static_cast<double>(width));
  return fmt::format("[{:#<{}}{:<{}}] ", "", filled, "", width - filled);
}

/// The longest line that fits: first the detail is left out, then the bar, then the time left.
std::string line_of(std::string_view step, double share, std::string_view detail, const std::string& left,
                    std::size_t columns) {
  const std::string percent = fmt::format("{:3.0f} %", 100 * share);
  const std::string ending = left.empty() ? "" : " " + left;
  const std::string more = detail.empty() ? "" : fmt::format(" {}", detail);
  const std::array<std::string, 5> ways{bar(share, detail.empty() ? 30 : 15) + percent + more + ending,
                                        bar(share, 15) + percent + ending, bar(share, 8) + percent + ending,
                                        percent + ending, percent};
  for (const std::string& way : ways) {
    if (width_of(step) + 1 + width_of(way) <= columns) return fmt::format("{} {}", step, way);
  }
  if (percent.size() + 1 >= columns) return std::string(fitting(percent, columns).first);
  return fmt::format("{} {}", fitting(step, columns - percent.size() - 1).first, percent);
}

}  // namespace

void ProgressLine::show(const ProgressReport& report) {
  if (report.step != step_) begin(report.step);
  const double now = since_start_.seconds();
  if (now - shown_ < wait_) return;
  shown_ = now;
  const double share = static_cast<double>(report.done) / static_cast<double>(report.total);
  const std::string left = share > 0 && share < 1 ? time_left(now * (1 - share) / share) + " left" : "";
  if (terminal_) {
    draw(share, report.detail, left);
  } else {
    spdlog::info("{}: {} of {} ({:.0f} %){}{}{}{}", step_, report.done, report.total, 100 * share,
                 report.detail.empty() ? "" : ", ", report.detail, left.empty() ? "" : ", ", left);
  }
}

void ProgressLine::begin(std::string_view step) {
  wipe();
  step_ = step;
  since_start_ = Stopwatch();
  shown_ = 0;
}

void ProgressLine::draw(double share, std::string_view detail, const std::string& left) {
  // A line that fills the last column would wrap, and could not be drawn over.
  fmt::print(stderr, "\r{}\x1b[K", line_of(step_, share, detail, left, terminal_width() - 1));
  std::fflush(stderr);
  drawn_ = true;
}

void ProgressLine::wipe() {
  if (drawn_) fmt::print(stderr, "\r\x1b[K");
  drawn_ = false;
}

}  // namespace kedge::cli
