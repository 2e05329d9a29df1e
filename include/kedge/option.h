// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace kedge {

/// A value that is read and written as text: a name, or a number where a name will do as well.
struct TextValue {
  std::function<std::string()> get;
  std::function<void(const std::string&)> set;  ///< throws Error(Code::bad_argument) that says what can be given
};

/// One option as its users know it. The command line, the Python package and the documents of both are made from lists
/// of these, which options_of() gives for every struct of options.
struct Option {
  std::string_view name;  ///< as on the command line, without the leading dashes; Python writes '_' for '-'
  std::string help;
  std::string_view type;                  ///< what is given: N, X, NAME, X|NAME, auto|X, FILE, LIST; empty for a flag
  std::string_view group;                 ///< what it belongs to, e.g. "param" or "consensus" for a method; or none
  std::size_t least = 0;                  ///< of a whole number
  bool shows_default = true;              ///< otherwise the help says what happens where nothing is given
  std::vector<std::string_view> choices;  ///< of a NAME
  /// Where its value is, inside the struct of options the list was made for.
  std::variant<bool*, std::size_t*, double*, std::string*, std::vector<std::size_t>*, TextValue> value;
};

}  // namespace kedge
