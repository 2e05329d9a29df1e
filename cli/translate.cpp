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
  std::string bundle, from, to, input, output;
  RowArguments rows;
  StreamArguments stream;
  CommonOptions common;
};

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  if (is_parquet(o.input) || is_parquet(o.output)) {
    o.rows.require_range("of a Parquet file");
    std::vector<std::string> words{"translate", o.bundle, "--from", o.from,   "--to",   o.to,
                                   "--in",      o.input,  "--out",  o.output, "--rows", o.rows.range};
    for (const auto& more : {o.stream.words(), o.common.words()}) words.insert(words.end(), more.begin(), more.end());
    become_parquet(std::move(words));
  }
  const StreamOptions options = o.stream.options();
  require_other_file(o.output, o.bundle);
  require_other_file(o.output, o.rows.file);
  const Translator translator(load_bundle(o.bundle), o.from, o.to);
  const Space input = o.rows.open(o.from, open_rows(o.input));
  translate(translator, input, o.output, make_progress(o.common), options);
  const double seconds = watch.seconds();
  print_json(o.common, {{"command", "translate"},
                        {"from", o.from},
                        {"to", o.to},
                        {"out", o.output},
                        {"rows", input.rows()},
                        {"dim", translator.output_dim()},
                        {"seconds", seconds}});
  say(o.common,
      fmt::format("wrote {}: {} x {}, from '{}' to '{}', {:.2f} s ({:.0f} rows/s)", o.output, input.rows(),
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
  c.add("-i,--in", o->input, "Embeddings: .npy, .safetensors#tensor, .fvecs or .parquet#column, of any length")
      .required()
      .takes("FILE");
  c.add("-o,--out", o->output,
        "Result, one row per input row: a float32 .npy, or a .parquet that keeps the input's other columns")
      .required()
      .takes("FILE");
  o->rows.add_to(c, "Rows to translate, as FIRST:END [all]");
  o->stream.add_to(c);
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
