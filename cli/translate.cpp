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
  std::string bundle, from, to;
  StreamArguments stream;
  CommonOptions common;
};

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  o.stream.hand_over_parquet({"translate", o.bundle, "--from", o.from, "--to", o.to}, o.common);
  const StreamOptions options = o.stream.options(o.bundle);
  const Translator translator(load_bundle(o.bundle), o.from, o.to);
  const Space input = o.stream.open(o.from);
  translate(translator, input, o.stream.output, options, make_progress(o.common));
  const double seconds = watch.seconds();
  Json json = {{"command", "translate"}, {"from", o.from},       {"to", o.to},
               {"out", o.stream.output}, {"rows", input.rows()}, {"dim", translator.output_dim()},
               {"seconds", seconds}};
  if (translator.r2()) {
    json.set("r2", *translator.r2());
    say(o.common,
        fmt::format("regressed on the kept rows of both, with a cross-validated R^2 of {:.3f}", *translator.r2()));
  }
  print_json(o.common, json);
  say(o.common,
      fmt::format("wrote {}: {} x {}, from '{}' to '{}', {:.2f} s ({:.0f} rows/s)", o.stream.output, input.rows(),
                  translator.output_dim(), o.from, o.to, seconds, static_cast<double>(input.rows()) / seconds));
}

}  // namespace

void add_translate(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("translate",
                        "Turn one encoder's embeddings into those another encoder would have made of the same inputs");
  c.add("bundle", o->bundle, "Bundle written by 'kedge fit' or 'kedge attach'").required().takes("BUNDLE");
  c.add("--from", o->from, "Which encoder of the bundle made the embeddings").required().takes("NAME");
  c.add("--to", o->to, "Encoder whose space to translate into, e.g. that of an index or a classifier")
      .required()
      .takes("NAME");
  o->stream.add_to(c, "translate");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
