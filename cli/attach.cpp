// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
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
#include <utility>

namespace kedge::cli {
namespace {

struct Options {
  AttachOptions attach;
  std::string bundle, space, output;
  std::vector<std::string> moments;
  RowArguments rows;
  bool replace = false;
  CommonOptions common;
};

/// Where a bundle is changed in place, another process that does the same waits: each would lose what the other added.
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
  /// Until the file that is locked is the one of that name: the one before may have been replaced meanwhile.
  void take(const Options& o) {
    for (bool told = false;; release()) {
      file_ = ::open(o.bundle.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
      if (file_ < 0) return;  // who reads it says why
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

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  const AttachOptions& options = o.attach;
  require_device(options.device);
  const BundleLock lock(o);
  Bundle bundle = load_bundle(o.bundle);
  const Space space = o.rows.open(o.space);
  if (bundle.has(space.name()) && !o.replace) {
    throw Error(Code::bad_argument, fmt::format("{} already has a space '{}'; choose another name, or give --replace",
                                                o.bundle, space.name()));
  }
  require_other_file(o.output, file_of(o.space));
  require_replaceable(o.output, ResultKind::bundle);
  const auto writable = require_writable(o.output);
  if (!o.moments.empty() && o.rows.given() && !options.support_rows) {
    throw Error(Code::bad_argument,
                "--rows says which rows to take statistics from, but these come from --moments; leave out one of them");
  }
  for (const std::string& moments : o.moments) require_other_file(o.output, moments);
  tell_cost(o.common, attach_cost(bundle, options, space.dim()), fmt::format("attaching '{}'", space.name()));
  std::size_t statistics_rows = space.rows();
  if (o.moments.empty()) {
    bundle.add(attach(bundle, space, options, make_progress(o.common)));
  } else {
    const Moments moments = load_all_moments(o.moments);
    statistics_rows = moments.rows();
    bundle.add(attach(bundle, moments, space, options, make_progress(o.common)));
  }
  save_bundle(bundle, o.output);
  const Attachment& attached = bundle.space(space.name());
  Json summary = {{"command", "attach"},
                  {"bundle", o.output},
                  {"space", space.name()},
                  {"dim", space.dim()},
                  {"anchors", bundle.mixture.rows()},
                  {"statistics_rows", statistics_rows},
                  {"seconds", watch.seconds()}};
  summary.update(fit_to_json(attached));
  print_json(o.common, summary);
  say_how_it_fits(o.common, {&attached, 1});
  say(o.common, fmt::format("wrote {}: attached '{}' ({} -> {} values), {:.2f} s", o.output, space.name(), space.dim(),
                            bundle.mixture.rows(), watch.seconds()));
}

}  // namespace

void add_attach(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("attach", "Add an encoder to a bundle without changing its anchors");
  c.add("bundle", o->bundle, "Bundle written by 'kedge fit'").required().takes("BUNDLE");
  c.add("--space", o->space, "The new encoder's embeddings of the inputs the bundle was fitted on")
      .required()
      .takes("NAME=FILE")
      .only_once();
  c.add("-o,--out", o->output, "Bundle to write; may be the same file").required().takes("FILE");
  o->rows.add_to(c, "Rows to compute its mean and covariance from, as FIRST:END [all]");
  add_options(c, options_of(o->attach));
  add_moments_files(c, o->moments,
                    "Take its statistics from these moments of its rows ('kedge moments') instead of from the file; "
                    "repeat for each part");
  c.add_flag("--replace", o->replace, "Replace the space of that name if there is one");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
