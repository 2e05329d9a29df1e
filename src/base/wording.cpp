// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>

namespace kedge {
namespace {

// ASCII's own separators: no path or name that a person types holds them, and printable() shows a stray one.
constexpr char kBegin = '\x1d', kNext = '\x1e', kEnd = '\x1f';

std::string keyword(std::string_view name) {
  std::string words(name);
  std::ranges::replace(words, '-', '_');
  return words;
}

}  // namespace

std::string by_vocabulary(std::string_view library, std::string_view command, std::string_view python) {
  return fmt::format("{}{}{}{}{}{}{}", kBegin, library, kNext, command, kNext, python, kEnd);
}

std::string option_words(std::string_view name) {
  const std::string words = keyword(name);
  return by_vocabulary(words, fmt::format("--{}", name), words);
}

std::string option_words(std::string_view name, std::string_view value) {
  const std::string words = keyword(name);
  return by_vocabulary(fmt::format("{} = {}", words, value), fmt::format("--{} {}", name, value),
                       fmt::format("{}='{}'", words, value));
}

std::string flag_words(std::string_view name) {
  const std::string words = keyword(name);
  return by_vocabulary(words + " = true", fmt::format("--{}", name), words + "=True");
}

std::string in_words(std::string_view text, Vocabulary vocabulary) {
  std::string result;
  while (true) {
    const std::size_t end = text.find(kEnd), begin = end == text.npos ? end : text.rfind(kBegin, end);
    if (end == text.npos) return result.append(text);
    if (begin == text.npos) {  // a stray one
      result.append(text.substr(0, end + 1));
    } else {
      std::string_view words = text.substr(begin + 1, end - begin - 1);
      for (auto skipped = static_cast<int>(vocabulary); skipped > 0; --skipped) {
        words.remove_prefix(std::min(words.find(kNext), words.size() - 1) + 1);
      }
      result.append(text.substr(0, begin)).append(words.substr(0, words.find(kNext)));
    }
    text.remove_prefix(end + 1);
  }
}

}  // namespace kedge
