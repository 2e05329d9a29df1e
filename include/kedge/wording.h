// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kedge {

/// Who reads the messages, and so what they call an option: `--in-place` on the command line, `in_place=True` in
/// Python.
enum class Surface { command, python };

/// For the whole process, to be called before any work; it is the command unless told otherwise.
void speak_to(Surface surface);
[[nodiscard]] Surface spoken_to();

/// "--refine-rate", or "refine_rate". `name` is written as in Option.
[[nodiscard]] std::string option_words(std::string_view name);
/// "--device cpu", or "device='cpu'".
[[nodiscard]] std::string option_words(std::string_view name, std::string_view value);
/// "--in-place", or "in_place=True".
[[nodiscard]] std::string flag_words(std::string_view name);

/// The name that `word` was probably meant to be: a slip or two away, swapped neighbours being one. Leading dashes do
/// not count. Nothing if none is near.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, std::span<const std::string> names);
/// "; did you mean 'NAME'?", or nothing.
[[nodiscard]] std::string did_you_mean(std::string_view word, std::span<const std::string> names);

}  // namespace kedge
