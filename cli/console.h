// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "command.h"
#include "json.h"
#include "stopwatch.h"

#include <kedge/kedge.h>

#include <span>
#include <string>
#include <vector>

namespace kedge::cli {

/// Options every command has.
struct CommonOptions {
  bool quiet = false;
  bool json = false;
  unsigned threads = 0;  ///< 0: all cores
  void add_to(Command& command);
  /// To be called once before any work.
  void apply() const;
  /// The same, as words of a command line.
  [[nodiscard]] std::vector<std::string> words() const;
};

/// Thrown out of the progress callback after the user pressed Ctrl-C; the work undoes itself on the way up.
class Interrupted : public Error {
 public:
  explicit Interrupted(const std::string& message = "interrupted; no file was changed")
      : Error(Code::failed, message) {}
};

/// Thrown after all is said and done, for an exit status of its own: the work went well, but what it found is not to be
/// trusted, or less than was asked for.
class NotGoodEnough : public Error {
 public:
  explicit NotGoodEnough(const std::string& verdict) : Error(Code::failed, verdict) {}
};

/// Ends the process, with a sentence, if there is no memory for the threads of OpenBLAS. Those have started by now, and
/// one that gets no memory tries for ever; exit() would wait for it.
void require_room();
/// From now on Ctrl-C and termination stop the work at the next progress call; a second one ends the process at once.
void watch_for_interrupt();

/// Draws long work on stderr: a bar with the time left on a terminal, a line every few seconds otherwise, nothing if
/// quiet.
[[nodiscard]] Progress make_progress(const CommonOptions& options, double seconds_between_lines = 5);
/// A line on stderr that says what was done; nothing if quiet.
void say(const CommonOptions& options, const std::string& message);
/// A summary on stdout if --json was given.
void print_json(const CommonOptions& options, const Json& summary);

/// The FILE of "NAME=FILE".
[[nodiscard]] std::string file_of(const std::string& space);
/// "NAME=FILE", or "FILE" named by its stem.
[[nodiscard]] Space open_space(const std::string& text, RowRange rows = {});
/// The name of a space, for messages, if only its file was given.
[[nodiscard]] std::string name_of_file(const std::string& path);
/// "a:b", ":b", "a:" or "" for all rows.
[[nodiscard]] RowRange parse_rows(const std::string& text);

/// Adds --device; `what` is its help.
void add_device(Command& command, std::string& device, const std::string& what = "Where to compute");

[[nodiscard]] Json ridge_to_json(const RidgeFit& fit);
/// How a map was made and how well it fits.
[[nodiscard]] Json fit_to_json(const Attachment& space);
/// How well the map back to a space fits, if it has one.
[[nodiscard]] std::string describe_reverse(const Attachment& space);
/// Prints what time and memory work will take, unless it is quick.
void tell_cost(const CommonOptions& options, const Cost& cost, const std::string& work);
[[nodiscard]] Json losses_to_json(const Losses& losses);
/// Whether the rows of spaces belong together, as one line; empty if nothing was checked.
[[nodiscard]] std::string describe_rows(std::span<const Attachment> spaces);
/// What `auto` chose for a space, and by which errors.
[[nodiscard]] std::string describe_choice(const Attachment& space);
[[nodiscard]] Json row_check_to_json(const RowCheck& check);
/// Warnings about the rows of a bundle's spaces: the sources together, each attached space by itself.
[[nodiscard]] std::vector<std::string> warnings_of_rows(const Bundle& bundle, std::span<const Attachment> spaces);
/// Whether R^2 of a space means anything: not if its rows, or those its targets come from, do not match.
[[nodiscard]] bool has_meaningful_r2(const Bundle& bundle, const Attachment& space);
/// Prints whether the rows of spaces match and, if they do, how well the spaces fit the anchors.
void say_how_it_fits(const CommonOptions& options, const Bundle& bundle, std::span<const Attachment> spaces);

}  // namespace kedge::cli
