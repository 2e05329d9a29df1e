// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "ids.h"
#include "io/outputs.h"
#include "options.h"
#include "row_arguments.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <kedge/kedge.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

namespace kedge::cli {
namespace {

struct Options {
  AttachOptions attach;
  std::string bundle, space, output, ids, pairs;
  std::vector<std::string> moments;
  RowArguments rows;
  bool replace = false;
  CommonOptions common;
};

/// A lock for changing a bundle in place: without it, two processes would each lose what the other added.
class BundleLock {
 public:
  explicit BundleLock(const Options& o) {
    std::error_code unknown;
    if (std::filesystem::equivalent(o.output, o.bundle, unknown)) take(o);
  }
  ~BundleLock() { release(); }
  BundleLock(const BundleLock&) = delete;
  BundleLock& operator=(const BundleLock&) = delete;

 private:
  /// Tries again until the locked file still has that name: another process may have replaced it meanwhile.
  void take(const Options& o) {
    for (bool told = false;; release()) {
      file_ = ::open(o.bundle.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      if (file_ < 0) return;  // whoever reads it says why
      if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK) return;  // a file system without locks
        if (!std::exchange(told, true))
          say(o.common, fmt::format("waiting for another kedge to finish changing '{}'", o.bundle));
        if (::flock(file_, LOCK_EX) != 0 && errno == EINTR) throw Interrupted();
      }
      struct stat held {
      }, named{};
      if (::fstat(file_, &held) != 0 || ::stat(o.bundle.c_str(), &named) != 0) return;
      if (held.st_ino == named.st_ino && held.st_dev == named.st_dev) return;
    }
  }
  void release() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }

  int file_ = -1;
};

void require_sensible(const Options& o) {
  const auto refuse = [](const char* message) { throw Error(Code::bad_argument, message); };
  if (!o.moments.empty() && !o.ids.empty()) {
    refuse(
        "--ids finds the support rows in the file of --space, but --moments carry them or are beside them; leave out "
        "one of them");
  }
  if (!o.ids.empty() && o.attach.support_rows) {
    refuse(
        "--support-rows says that the file holds only the support, in its order, so that --ids are of no use; leave "
        "out one of them");
  }
  if (!o.space.empty()) {
    if (o.moments.empty() || !o.rows.given() || o.attach.support_rows) return;
    refuse("--rows says which rows to take statistics from, but these come from --moments; leave out one of them");
  }
  if (o.moments.empty()) {
    refuse(
        "there is nothing to attach: give --space NAME=FILE, or --moments FILE with moments that carry its support "
        "rows ('kedge moments --support-of')");
  }
  if (!o.ids.empty() || !o.pairs.empty() || o.rows.given() || o.attach.support_rows) {
    refuse(
        "--rows, --support-rows and --pairs are about the rows of --space, but there are only moments; leave them out, "
        "or give --space");
  }
}

AttachRows open_rows(const Options& o) {
  AttachRows rows;
  if (!o.space.empty()) rows.space = o.rows.open(o.space);
  if (!o.moments.empty()) rows.moments = load_all_moments(o.moments);
  if (!o.ids.empty()) rows.ids = read_ids_of(o.ids);
  if (!o.pairs.empty()) rows.pairs = read_integer_rows(o.pairs, 2, "a row number of the fit and one of --space");
  if (rows.space || rows.moments.value().parts().size() == 1) return rows;
  throw Error(Code::bad_argument, fmt::format("one space is attached at a time, but the moments are of {}; say which "
                                              "with --space, or sum up its rows alone",
                                              rows.moments.value().parts().size()));
}

AttachInput read_given(const Bundle& bundle, const AttachRows& rows, const Options& o, const Progress& progress) {
  try {
    return read_input(bundle, rows, o.attach, progress);
  } catch (const RepeatedId& problem) {
    refuse_repeated(problem, o.ids);
  }
}

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  const AttachOptions& options = o.attach;
  require_device(options.device);
  require_sensible(o);
  const BundleLock lock(o);
  const Bundle before = load_bundle(o.bundle);
  const AttachRows given = open_rows(o);
  const auto [name, dim] =
      given.space ? Moments::Part{given.space->name(), given.space->dim()} : given.moments.value().parts().front();
  if (before.has(name) && !o.replace) {
    throw Error(Code::bad_argument,
                fmt::format("{} already has a space '{}'; choose another name, or give --replace", o.bundle, name));
  }
  if (given.space) require_other_file(o.output, file_of(o.space));
  require_other_file(o.output, o.ids);
  require_other_file(o.output, o.pairs);
  require_replaceable(o.output, ResultKind::bundle);
  const auto writable = require_writable(o.output);
  for (const std::string& moments : o.moments) require_other_file(o.output, moments);
  tell_cost(o.common, attach_cost(before, options, dim), fmt::format("attaching '{}'", name));
  const Progress progress = make_progress(o.common);
  const AttachInput input = read_given(before, given, o, progress);
  const Bundle bundle = before.with(attach(before, input, options, progress));
  save_bundle(bundle, o.output);
  const Attachment& attached = bundle.space(name);
  Json summary = {{"command", "attach"},
                  {"bundle", o.output},
                  {"space", name},
                  {"dim", dim},
                  {"anchors", bundle.anchors().mixture.rows()},
                  {"support", input.support.rows()},
                  {"statistics_rows", input.moments.rows()},
                  {"seconds", watch.seconds()}};
  summary.update(fit_to_json(attached));
  print_json(o.common, summary);
  if (!input.places.empty()) {
    say(o.common, fmt::format("the pairs name {} of the {} support rows, and the map was made from those",
                              input.support.rows(), bundle.anchors().support_ids.size()));
  }
  say_how_it_fits(o.common, bundle, {&attached, 1});
  say(o.common, fmt::format("wrote {}: attached '{}' ({} -> {} values), {:.2f} s", o.output, name, dim,
                            bundle.anchors().mixture.rows(), watch.seconds()));
}

}  // namespace

void add_attach(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("attach", "Add an encoder to a bundle without changing its anchors");
  c.add("bundle", o->bundle, "Bundle written by 'kedge fit'").required().takes("BUNDLE");
  c.add(
       "--space", o->space,
       "The new encoder's embeddings of the inputs the bundle was fitted on. Not needed if --moments carry its support "
       "rows")
      .takes("NAME=FILE")
      .only_once();
  c.add("-o,--out", o->output, "Bundle to write; may be the same file").required().takes("FILE");
  o->rows.add_to(c, "Rows to compute its mean and covariance from, as FIRST:END [all]");
  add_options(c, options_of(o->attach));
  add_moments_files(
      c, o->moments,
      "Take its statistics from these moments of its rows ('kedge moments') instead of from the file, and "
      "its support rows if they carry those; one file for each part");
  add_ids(c, o->ids, "to find the support rows by, if the bundle keeps ids");
  c.add("--pairs", o->pairs,
        "Which rows are which, where the file is not in the order of the fit: an .npy of integers with two columns, "
        "row numbers of the first file that was fitted and of this one, from 0. A ridge makes do with some of the "
        "support rows")
      .takes("FILE");
  c.add_flag("--replace", o->replace, "Replace the space of that name if there is one");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
