// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "options.h"
#include "row_arguments.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <memory>

namespace kedge::cli {
namespace {

struct Options {
  std::vector<std::string> spaces, parts;
  std::string output;
  RowArguments rows;
  Device device = Device::cpu;
  CommonOptions common;
};

Moments sum(const Options& o) {
  Moments moments = load_all_moments(o.parts);
  if (o.spaces.empty()) return moments;
  std::vector<Space> spaces;
  for (const std::string& text : o.spaces) spaces.push_back(o.rows.open(text));
  moments.merge(sum_moments(spaces, make_progress(o.common), o.device));
  return moments;
}

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  require_device(o.device);
  if (o.spaces.empty() && o.parts.empty()) {
    throw Error(Code::bad_argument, "nothing to sum up: give --space NAME=FILE, --moments FILE, or both");
  }
  for (const std::string& space : o.spaces) require_other_file(o.output, file_of(space));
  require_other_file(o.output, o.rows.file);
  require_replaceable(o.output, ResultKind::moments);
  const auto writable = require_writable(o.output);
  const Moments moments = sum(o);
  save_moments(moments, o.output);
  Json spaces = Json::array();
  std::string shown;
  for (const Moments::Part& part : moments.parts()) {
    spaces.push_back(Json{{"name", part.space}, {"dim", part.dim}});
    shown += fmt::format("{}{} ({})", shown.empty() ? "" : ", ", part.space, part.dim);
  }
  print_json(o.common, Json{{"command", "moments"},
                            {"moments", o.output},
                            {"rows", moments.rows()},
                            {"spaces", spaces},
                            {"seconds", watch.seconds()}});
  say(o.common,
      fmt::format("wrote {}: moments of {} rows of {}, {:.2f} s", o.output, moments.rows(), shown, watch.seconds()));
}

}  // namespace

void add_moments(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("moments",
                        "Sum up what a fit needs to know of rows, so that parts of them can be read on other machines");
  c.add_repeated("--space", o->spaces,
                 "One encoder's embeddings; repeat for each encoder. Row n of every file must embed the same input n")
      .takes("NAME=FILE");
  add_moments_files(c, o->parts, "Also merge moments of other rows of the same spaces; repeat for each file");
  c.add("-o,--out", o->output, "Moments to write").required().takes("FILE");
  o->rows.add_to(c, "Rows to sum up, as FIRST:END, END excluded [all]");
  c.add_text(
       "--device", [o](const std::string& name) { o->device = parse_device(name); }, "Where to compute")
      .one_of(device_names())
      .shows_default(std::string(to_string(o->device)));
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
