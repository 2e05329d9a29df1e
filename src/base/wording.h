// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <kedge/error.h>

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace kedge {

/// A part of an Error's message for which each Vocabulary has its own words.
[[nodiscard]] std::string by_vocabulary(std::string_view library, std::string_view command, std::string_view python);

/// A text with such parts, in the words of one vocabulary.
[[nodiscard]] std::string in_words(std::string_view text, Vocabulary vocabulary);

/// "refine_rate", or "--refine-rate". `name` is written as in Option.
[[nodiscard]] std::string option_words(std::string_view name);
/// "device = cpu", "--device cpu", or "device='cpu'".
[[nodiscard]] std::string option_words(std::string_view name, std::string_view value);
/// "in_place = true", "--in-place", or "in_place=True".
[[nodiscard]] std::string flag_words(std::string_view name);

/// The name that `word` was probably meant to be: a slip or two away, swapped neighbours being one. Leading dashes do
/// not count. Nothing if none is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, std::span<const std::string> names);
/// "; did you mean 'NAME'?", or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> names);

// Each throws an Error with this text: bad_argument, bad_file and failed.
template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(Code::bad_argument, fmt::format(text, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
[[noreturn]] void refuse_file(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(Code::bad_file, fmt::format(text, std::forward<Arguments>(arguments)...));
}
template <class... Arguments>
[[noreturn]] void fail(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(Code::failed, fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// Where `name` is among the names; throws Error(Code::bad_argument) that lists them.
[[nodiscard]] std::size_t place_of_name(std::string_view what, std::string_view name,
                                        std::span<const std::string_view> names);

/// What an enumeration is called in messages, and the names of its values in their order.
template <class Enum, std::size_t N>
struct Names {
  std::string_view what;
  std::array<std::string_view, N> names;

  [[nodiscard]] std::string_view of(Enum value) const { return names.at(static_cast<std::size_t>(value)); }
  [[nodiscard]] Enum parse(std::string_view name) const { return static_cast<Enum>(place_of_name(what, name, names)); }
  [[nodiscard]] std::vector<std::string_view> all() const { return {names.begin(), names.end()}; }
};

}  // namespace kedge
