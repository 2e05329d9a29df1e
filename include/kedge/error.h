// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace kedge {

/// What kind of help the reader of an error needs.
enum class Code {
  failed,        ///< the work could not be done: disk full, no memory, no such device
  bad_argument,  ///< the request itself is wrong: unknown space, support larger than the rows
  bad_file,      ///< a file is missing, damaged, or does not hold what was asked of it
};

/// What kedge throws. The message says who, expected, found, and what to do next, in one printable line.
class Error : public std::runtime_error {
 public:
  /// Names in a message come from files and may hold anything; what() is printable() and of bounded length.
  Error(Code code, std::string_view message);
  [[nodiscard]] Code code() const noexcept { return code_; }

 private:
  Code code_;
};

/// A bundle has no space of that name.
class UnknownSpace : public Error {
 public:
  explicit UnknownSpace(std::string_view message) : Error(Code::bad_argument, message) {}
};

/// The text as UTF-8 that a terminal shows and does not obey: what would end a line, move the cursor or turn the
/// direction of writing is written as \x1b, and so is what is no UTF-8.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace kedge
