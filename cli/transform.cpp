// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "parquet.h"
#include "row_arguments.h"
#include "stream_arguments.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kedge::cli {
namespace {

struct Options {
  std::string bundle, space, input, output;
  RowArguments rows;
  StreamArguments stream;
  CommonOptions common;
};

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  if (is_parquet(o.input) || is_parquet(o.output)) {
    o.rows.require_range("of a Parquet file");
    std::vector<std::string> words{"transform", o.bundle, "--space", o.space,  "--in",
                                   o.input,     "--out",  o.output,  "--rows", o.rows.range};
    for (const auto& more : {o.stream.words(), o.common.words()}) words.insert(words.end(), more.begin(), more.end());
    become_parquet(std::move(words));
  }
  const StreamOptions options = o.stream.options();
  require_other_file(o.output, o.bundle);
  require_other_file(o.output, o.rows.file);
  const Bundle bundle = load_bundle(o.bundle);
  const RelativeMap& map = bundle.map(o.space);
  const Space input = o.rows.open(o.space, open_rows(o.input));
  transform(map, input, o.output, make_progress(o.common), options);
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
  c.add("-i,--in", o->input, "Embeddings: .npy, .safetensors#tensor, .fvecs or .parquet#column, of any length")
      .required()
      .takes("FILE");
  c.add("-o,--out", o->output,
        "Result, one row per input row: a float32 .npy, or a .parquet that keeps the input's other columns")
      .required()
      .takes("FILE");
  o->rows.add_to(c, "Rows to map, as FIRST:END [all]");
  o->stream.add_to(c, "Where to compute; euclidean maps run on cpu only");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
