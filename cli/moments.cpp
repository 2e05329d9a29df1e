// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "ids.h"
#include "io/outputs.h"
#include "options.h"
#include "row_arguments.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <memory>
#include <utility>

namespace kedge::cli {
namespace {

struct Options {
  std::vector<std::string> spaces, parts;
  std::string output, ids, support_of;
  std::size_t support = 0, seed = 0;
  RowArguments rows;
  Device device = Device::cpu;
  CommonOptions common;
};

SupportDraw draw_of(const Options& o) {
  if (!o.support_of.empty()) {
    const Bundle bundle = load_bundle(o.support_of);
    if (bundle.anchors().by_id) return SupportDraw(bundle.anchors().support_ids);
    throw Error(Code::bad_argument,
                fmt::format("{} keeps its support by row number, so that ids do not find it; attach "
                            "the space with all its rows, or fit with --ids first",
                            o.support_of));
  }
  return o.support == 0 ? SupportDraw() : SupportDraw(o.support, o.seed);
}

/// Adds the rows of the spaces to empty moments that keep the support as asked, or to the moments of the parts.
Moments sum(const Options& o) {
  Moments parts = load_all_moments(o.parts);
  if (o.spaces.empty()) return parts;
  std::vector<Space> spaces;
  for (const std::string& text : o.spaces) spaces.push_back(o.rows.open(text));
  const std::vector<std::int64_t> ids = read_ids_of(o.ids);
  SupportDraw draw = draw_of(o);
  Moments moments = draw.keeps_rows() ? Moments(std::move(draw)) : std::exchange(parts, {});
  try {
    kedge::add_moments(moments, spaces, ids, o.device, make_progress(o.common));
    moments.merge(std::move(parts));
  } catch (const RepeatedId& problem) {
    refuse_repeated(problem, o.ids);
  }
  return moments;
}

void require_sensible(const Options& o) {
  if (!o.spaces.empty()) return;
  if (o.parts.empty()) {
    throw Error(Code::bad_argument, "nothing to sum up: give --space NAME=FILE, --moments FILE, or both");
  }
  const std::pair<const char*, bool> about_rows[]{{"--ids", !o.ids.empty()},
                                                  {"--support", o.support != 0},
                                                  {"--support-of", !o.support_of.empty()},
                                                  {"--rows", o.rows.given()}};
  for (const auto& [name, given] : about_rows) {
    if (!given) continue;
    throw Error(Code::bad_argument,
                fmt::format("{} says something about the rows of --space, but there are only moments to merge, which "
                            "keep the support they have; leave it out",
                            name));
  }
}

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  require_device(o.device);
  require_sensible(o);
  for (const std::string& space : o.spaces) require_other_file(o.output, file_of(space));
  for (const std::string& input : {o.rows.file, o.ids, o.support_of}) require_other_file(o.output, input);
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
  Json summary{{"command", "moments"},
               {"moments", o.output},
               {"rows", moments.rows()},
               {"spaces", spaces},
               {"seconds", watch.seconds()}};
  std::string support;
  if (moments.support().keeps_rows()) {
    summary.set("support", moments.support().size());
    support = fmt::format(" and {} support rows", moments.support().size());
  }
  print_json(o.common, summary);
  say(o.common, fmt::format("wrote {}: moments of {} rows of {}{}, {:.2f} s", o.output, moments.rows(), shown, support,
                            watch.seconds()));
}

}  // namespace

void add_moments(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("moments",
                        "Sum up what a fit needs to know of rows, so that parts of them can be read on other machines");
  c.add_repeated("--space", o->spaces,
                 "One encoder's embeddings; repeat for each encoder. Row n of every file must embed the same input n")
      .takes("NAME=FILE");
  add_moments_files(c, o->parts, "Also merge moments of other rows of the same spaces; one file or more");
  c.add("-o,--out", o->output, "Moments to write").required().takes("FILE");
  o->rows.add_to(c, "Rows to sum up, as FIRST:END, END excluded [all]");
  add_ids(c, o->ids, "by which the support is drawn");
  c.add("--support", o->support,
        "Also keep this many support rows. They are drawn by id: the same rows from all parts together, however the "
        "rows "
        "are divided. Give all parts the same number and seed")
      .takes("N")
      .at_least_one();
  c.add("--seed", o->seed, "Draws other support rows").takes("N").shows_default();
  c.add("--support-of", o->support_of,
        "Keep the rows with the support ids of this bundle instead, to attach the space to it")
      .takes("BUNDLE");
  c.exclude_each_other("--support-of", "--support");
  c.add_text(
       "--device", [o](const std::string& name) { o->device = parse_device(name); }, "Where to compute")
      .one_of(device_names())
      .shows_default(std::string(to_string(o->device)));
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
