// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "stream_arguments.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <memory>
#include <string>

namespace kedge::cli {
namespace {

struct Options {
  std::string bundle, space;
  StreamArguments stream;
  CommonOptions common;
};

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  o.stream.hand_over_parquet({"transform", o.bundle, "--space", o.space}, o.common);
  const StreamOptions options = o.stream.options(o.bundle);
  const Bundle bundle = load_bundle(o.bundle);
  const std::shared_ptr<const RelativeMap> held = bundle.map(o.space);
  const RelativeMap& map = *held;
  const Space input = o.stream.open(o.space);
  transform(map, input, o.stream.output, options, make_progress(o.common));
  const double seconds = watch.seconds();
  print_json(o.common, {{"command", "transform"},
                        {"space", o.space},
                        {"out", o.stream.output},
                        {"rows", input.rows()},
                        {"dim", map.output_dim()},
                        {"seconds", seconds}});
  say(o.common, fmt::format("wrote {}: {} x {}, {:.2f} s ({:.0f} rows/s)", o.stream.output, input.rows(),
                            map.output_dim(), seconds, static_cast<double>(input.rows()) / seconds));
}

}  // namespace

void add_transform(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("transform", "Map one encoder's embeddings into the shared space");
  c.add("bundle", o->bundle, "Bundle written by 'kedge fit' or 'kedge attach'").required().takes("BUNDLE");
  c.add("--space", o->space, "Which encoder of the bundle made the embeddings").required().takes("NAME");
  o->stream.add_to(c, "map", "Where to compute; euclidean, angular and manhattan maps run on cpu only");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
