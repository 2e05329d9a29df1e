// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/error.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

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

}  // namespace kedge
