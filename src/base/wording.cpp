// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"

#include <fmt/ranges.h>

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

constexpr std::size_t kLongest = 64;  // letters of a word that is compared; time grows with their square

/// How many characters to put in, take out, change or swap with a neighbour to get from one to the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> steps(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        steps[i][j] = i + j;
        continue;
      }
      const std::size_t changed = steps[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      steps[i][j] = std::min({steps[i - 1][j] + 1, steps[i][j - 1] + 1, changed});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) steps[i][j] = std::min(steps[i][j], steps[i - 2][j - 2] + 1);
    }
  }
  return steps[a.size()][b.size()];
}

std::string_view without_dashes(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  return word;
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

std::optional<std::string> nearest(std::string_view word, std::span<const std::string> names) {
  const std::string_view plain = without_dashes(word);
  if (plain.empty() || plain.size() > kLongest) return std::nullopt;
  const std::string* best = nullptr;
  std::size_t least = 0;
  for (const std::string& name : names) {
    const std::string_view other = without_dashes(name);
    if (other.size() > kLongest) continue;
    const std::size_t slips = distance(plain, other);
    // A third of the letters at most: any three letters are three slips from any others.
    if (slips > 2 || 3 * slips > std::max(plain.size(), other.size())) continue;
    if (best != nullptr && slips >= least) continue;
    best = &name;
    least = slips;
  }
  return best == nullptr ? std::nullopt : std::optional(*best);
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  const std::optional<std::string> meant = nearest(word, names);
  return meant ? fmt::format("; did you mean '{}'?", *meant) : "";
}

std::size_t place_of_name(std::string_view what, std::string_view name, std::span<const std::string_view> names) {
  const auto found = std::ranges::find(names, name);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  refuse("unknown {} '{}'; expected one of: {}", what, name, fmt::join(names, ", "));
}

}  // namespace kedge
