// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kedge {

/// Who reads the messages, and so what they call an option: a program that uses the library, for which it is the field
/// `in_place`; whoever types the command, for whom it is `--in-place`; or Python, where it is `in_place=True`.
enum class Surface { library, command, python };

/// For the whole process, to be called before any work; it is the library unless told otherwise.
void speak_to(Surface surface);
[[nodiscard]] Surface spoken_to();

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
