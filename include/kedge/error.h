// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
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

/// Whose words a message uses for an option: `in_place = true` in C++, `--in-place` or `in_place=True` elsewhere.
enum class Vocabulary { library, command, python };

/// What kedge throws. The message says who, expected, found, and what to do next, in one printable line.
class Error : public std::runtime_error {
 public:
  /// Names in a message come from files and may hold anything; what() is printable() and of bounded length.
  Error(Code code, std::string_view message);
  [[nodiscard]] Code code() const noexcept { return code_; }
  /// The message of what(), which has the library's words, in another vocabulary.
  [[nodiscard]] std::string message(Vocabulary vocabulary) const;
  /// The message as it was given, in no words yet: for an Error that says more about this one.
  [[nodiscard]] const std::string& text() const noexcept { return *text_; }

 private:
  Code code_;
  std::shared_ptr<const std::string> text_;  // shared, as copying what is thrown must not throw
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
