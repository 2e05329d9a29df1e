// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <memory>

namespace kedge::cli {
namespace {

struct Options {
  std::string bundle, space, input, output, rows;
  std::string device{to_string(Device::cpu)}, precision{to_string(Precision::fp32)};
  CommonOptions common;
};

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  require_device(parse_device(o.device));
  require_other_file(o.output, o.bundle);
  const Bundle bundle = load_bundle(o.bundle);
  const RelativeMap& map = bundle.map(o.space);
  const Space input(o.space, open_rows(o.input), parse_rows(o.rows));
  transform(map, input, o.output, make_progress(o.common), parse_device(o.device), parse_precision(o.precision));
  const double seconds = watch.seconds();
  print_json(o.common, {{"command", "transform"},
                        {"space", o.space},
                        {"out", o.output},
                        {"rows", input.rows()},
                        {"dim", map.output_dim()},
                        {"seconds", seconds}});
  say(o.common, fmt::format("wrote {}: {} x {}, {:.2f} s ({:.0f} rows/s)", o.output, input.rows(), map.output_dim(),
                            seconds, static_cast<double>(input.rows()) / seconds));
}

}  // namespace

void add_transform(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("transform", "Map one encoder's embeddings into the shared space");
  c.add("bundle", o->bundle, "Bundle written by 'kedge fit' or 'kedge attach'").required().takes("BUNDLE");
  c.add("--space", o->space, "Which encoder of the bundle made the embeddings").required().takes("NAME");
  c.add("-i,--in", o->input, "Embeddings: .npy, .safetensors#tensor or .fvecs, of any length").required().takes("FILE");
  c.add("-o,--out", o->output, "Result, one row per input row: a float32 .npy").required().takes("FILE");
  c.add("--rows", o->rows, "Rows to map, as FIRST:END [all]").takes("FIRST:END");
  add_device(c, o->device, "Where to compute; euclidean maps run on cpu only");
  add_precision(c, o->precision);
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
