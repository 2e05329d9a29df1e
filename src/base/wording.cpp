// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <kedge/wording.h>

#include <algorithm>
#include <atomic>

namespace kedge {
namespace {

std::atomic<Surface> reader{Surface::library};

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
  switch (spoken_to()) {
    case Surface::command: return fmt::format("{} {}", option_words(name), value);
    case Surface::python: return fmt::format("{}='{}'", option_words(name), value);
    case Surface::library: break;
  }
  return fmt::format("{} = {}", option_words(name), value);
}

std::string flag_words(std::string_view name) {
  switch (spoken_to()) {
    case Surface::command: return option_words(name);
    case Surface::python: return option_words(name) + "=True";
    case Surface::library: break;
  }
  return option_words(name) + " = true";
}

}  // namespace kedge
