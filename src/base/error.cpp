// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"

#include <algorithm>

namespace kedge {
namespace {

constexpr std::size_t kLongestMessage = 4000;  // bytes; a name in a hostile file may have millions

struct Character {
  char32_t code = 0;
  std::size_t bytes = 0;  ///< 0: the text does not begin with a character of UTF-8
};

Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t bytes = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < bytes) return {};
  char32_t code = first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3fU);
  }
  const bool overlong = (bytes == 3 && code < 0x800) || (bytes == 4 && code < 0x10000);
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  if (overlong || surrogate || code > 0x10ffff) return {};
  return {code, bytes};
}

/// Whether a terminal would act on it rather than show it.
bool is_obeyed(char32_t code) {
  const bool control = code < 0x20 || (code >= 0x7f && code <= 0x9f);
  const bool ends_line = code == 0x2028 || code == 0x2029;
  const bool turns = (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return control || ends_line || turns;
}

std::string message_of(std::string_view text) {
  if (text.size() <= kLongestMessage) return printable(text);
  // The end says what to do next.
  return fmt::format("{} [...] {}", printable(text.substr(0, kLongestMessage * 3 / 4)),
                     printable(text.substr(text.size() - kLongestMessage / 4)));
}

}  // namespace

Error::Error(Code code, std::string_view message)
    : std::runtime_error(message_of(in_words(message, Vocabulary::library))),
      code_(code),
      text_(std::make_shared<const std::string>(message)) {}

std::string Error::message(Vocabulary vocabulary) const {
  return message_of(in_words(*text_, vocabulary));
}

std::string printable(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const auto [code, bytes] = first_of(text);
    const std::string_view part = text.substr(0, std::max<std::size_t>(bytes, 1));
    if (bytes > 0 && !is_obeyed(code)) {
      shown += part;
    } else {
      for (const char c : part) shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(part.size());
  }
  return shown;
}

}  // namespace kedge
