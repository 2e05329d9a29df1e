// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <kedge/wording.h>

#include <algorithm>
#include <atomic>

namespace kedge {
namespace {

std::atomic<Surface> reader{Surface::command};

}  // namespace

void speak_to(Surface surface) {
  reader = surface;
}

Surface spoken_to() {
  return reader;
}

std::string option_words(std::string_view name) {
  if (spoken_to() == Surface::command) return fmt::format("--{}", name);
  std::string keyword(name);
  std::ranges::replace(keyword, '-', '_');
  return keyword;
}

std::string option_words(std::string_view name, std::string_view value) {
  return spoken_to() == Surface::command ? fmt::format("{} {}", option_words(name), value)
                                         : fmt::format("{}='{}'", option_words(name), value);
}

std::string flag_words(std::string_view name) {
  return spoken_to() == Surface::command ? option_words(name) : option_words(name) + "=True";
}

}  // namespace kedge
