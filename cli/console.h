// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <kedge/kedge.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kedge::cli {

using Json = nlohmann::ordered_json;

/// A whole number of 0 or more; CLI11 alone would let -3 wrap round, and make the largest number of a larger one.
inline const CLI::Validator kCount{[](const std::string& text) {
                                     std::uint64_t value = 0;
                                     const char* last = text.data() + text.size();
                                     const auto [end, problem] = std::from_chars(text.data(), last, value);
                                     if (problem == std::errc() && end == last) return std::string();
                                     const bool large = problem == std::errc::result_out_of_range && end == last;
                                     return "'" + text +
                                            (large ? "' is too large" : "' is not a whole number of 0 or more");
                                   },
                                   "", "count"};

/// A whole number of 1 or more.
inline const CLI::Validator kPositiveCount{[](const std::string& text) {
                                             std::string problem = CLI::Validator(kCount)(text);
                                             if (!problem.empty() || text.find_first_not_of('0') != std::string::npos)
                                               return problem;
                                             return std::string("0 is too few; give 1 or more");
                                           },
                                           "", "positive count"};

/// Options every command has.
struct CommonOptions {
  bool quiet = false;
  bool json = false;
  unsigned threads = 0;  ///< 0: all cores
  void add_to(CLI::App& command);
  /// To be called once before any work.
  void apply() const;
};

/// Thrown out of the progress callback after the user pressed Ctrl-C; the work undoes itself on the way up.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& message = "interrupted; no file was changed")
      : Error(Code::failed, message) {}
};

/// From now on Ctrl-C and termination stop the work at the next progress call; a second one ends the process at once.
void watch_for_interrupt();

/// Draws long work on stderr: a bar with the time left on a terminal, a line every few seconds otherwise, nothing if
/// quiet.
[[nodiscard]] Progress make_progress(const CommonOptions& options, double seconds_between_lines = 5);
/// A line on stderr that says what was done; nothing if quiet.
void say(const CommonOptions& options, const std::string& message);
/// A summary on stdout if --json was given.
void print_json(const CommonOptions& options, const Json& summary);

/// Throws Error(Code::bad_argument) if the two are the same file, which the output would destroy.
void require_other_file(const std::string& output, const std::string& input);
/// Throws Error(Code::bad_argument) if two of them are the same file; empty ones are not given.
void require_different(std::span<const std::string> outputs);
/// The FILE of "NAME=FILE".
[[nodiscard]] std::string file_of(const std::string& space);
/// "NAME=FILE", or "FILE" named by its stem.
[[nodiscard]] Space open_space(const std::string& text, RowRange rows = {});
/// "a:b", ":b", "a:" or "" for all rows.
[[nodiscard]] RowRange parse_rows(const std::string& text);

/// --device, by name. `what` is done there.
void add_device(CLI::App& command, std::string& device, const std::string& what = "Where to compute");

[[nodiscard]] Json ridge_to_json(const RidgeFit& fit);
/// One line for a space that was attached by ridge: how strong, and how well it fits.
[[nodiscard]] std::string describe_ridge(const Attachment& space);

/// Seconds since it was made.
class Stopwatch {
 public:
  [[nodiscard]] double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace kedge::cli
