// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>
#include <kedge/error.h>

#include <utility>

namespace kedge {

/// Throws Error(Code::bad_argument).
template <class... Arguments>
[[noreturn]] void refuse(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(Code::bad_argument, fmt::format(text, std::forward<Arguments>(arguments)...));
}

/// Throws Error(Code::bad_file).
template <class... Arguments>
[[noreturn]] void refuse_file(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  throw Error(Code::bad_file, fmt::format(text, std::forward<Arguments>(arguments)...));
}

}  // namespace kedge
