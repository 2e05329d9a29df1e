// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace kedge {

/// What kind of help the reader of an error needs.
enum class Code {
  failed,        ///< the work could not be done: disk full, no memory, no such device
  bad_argument,  ///< the request itself is wrong: unknown space, support larger than the rows
  bad_file,      ///< a file is missing, damaged, or does not hold what was asked of it
};

/// The one exception kedge throws. The message says who, expected, found, and what to do next.
class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code) {}
  [[nodiscard]] Code code() const noexcept { return code_; }

 private:
  Code code_;
};

}  // namespace kedge
