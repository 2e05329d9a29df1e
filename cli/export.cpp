// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "io/outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/kedge.h>

#include <array>
#include <memory>

namespace kedge::cli {
namespace {

constexpr std::array<std::string_view, 3> kFormats{"safetensors", "npy", "onnx"};  // which are also file extensions

struct Options {
  std::string bundle, space, from, to, output, format;
  ExportOptions how;
  CommonOptions common;
};

std::string format_of(const Options& o) {
  if (!o.format.empty()) return o.format;
  for (const std::string_view name : kFormats) {
    if (o.output.ends_with(fmt::format(".{}", name))) return std::string(name);
  }
  throw Error(Code::bad_argument,
              fmt::format("cannot tell the format of '{}'; give --format {}", o.output, fmt::join(kFormats, ", ")));
}

/// A map, or a translator.
template <class Map>
std::vector<std::string> write(const Map& map, const Options& o, const std::string& format) {
  require_other_file(o.output, o.bundle);
  if (format == "npy") {
    for (const std::string& part : npy_paths(map, o.output)) require_other_file(part, o.bundle);
    return export_npy(map, o.output, o.how);
  }
  format == "onnx" ? export_onnx(map, o.output, o.how) : export_safetensors(map, o.output, o.how);
  return {o.output};
}

template <class Map>
void run(const Map& map, const Options& o, const std::string& what, Json summary) {
  const std::string format = format_of(o);
  const std::vector<std::string> files = write(map, o, format);
  summary.set("format", format);
  summary.set("files", files);
  if (o.how.normalize) summary.set("normalize", true);
  print_json(o.common, summary);
  say(o.common,
      fmt::format("wrote {}: {}, {} -> {} values", fmt::join(files, ", "), what, map.input_dim(), map.output_dim()));
  if (o.how.normalize && format == "safetensors") {
    say(o.common, "it holds weight and bias alone: whoever computes with them has to divide each result by its length");
  }
}

void run(const Options& o) {
  o.common.apply();
  if (o.space.empty() && (o.from.empty() || o.to.empty())) {
    throw Error(
        Code::bad_argument,
        "it is not said what to export; give --space NAME for an encoder's map into the shared space, or --from "
        "NAME and --to NAME for the way from one encoder's space into another's");
  }
  const Bundle bundle = load_bundle(o.bundle);
  if (!o.space.empty()) {
    run(*bundle.map(o.space), o, fmt::format("the map of '{}'", o.space), {{"command", "export"}, {"space", o.space}});
  } else {
    run(Translator(bundle, o.from, o.to), o, fmt::format("from '{}' to '{}'", o.from, o.to),
        {{"command", "export"}, {"from", o.from}, {"to", o.to}});
  }
}

}  // namespace

void add_export(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("export", "Write one encoder's map, or a translation between two, for use outside kedge");
  c.add("bundle", o->bundle, "Bundle written by 'kedge fit' or 'kedge attach'").required().takes("BUNDLE");
  c.add("--space", o->space, "Encoder whose map to write, as 'kedge transform' uses it").takes("NAME");
  c.add("--from", o->from, "With --to: encoder to translate from, as 'kedge translate' does").takes("NAME");
  c.add("--to", o->to, "Encoder to translate to").takes("NAME");
  for (const char* name : {"--from", "--to"}) c.exclude_each_other("--space", name);
  c.add("-o,--out", o->output,
        "x.safetensors holds weight and bias, as torch.nn.Linear names them; x.npy becomes x.weight.npy, x.bias.npy "
        "and, for a map, x.mean.npy; a map by kernel also has mean, kernel_rows, kernel_coefficients, kernel_width "
        "and mostly kernel_whitener in either; x.onnx is a model that does what 'kedge transform' or 'kedge "
        "translate' does")
      .required()
      .takes("FILE");
  c.add("--format", o->format, "File format [from the extension of --out]")
      .one_of({kFormats.begin(), kFormats.end()})
      .takes("NAME");
  c.add_flag("--normalize", o->how.normalize,
             "Let the model divide every result by its length; for onnx, and as a note in the metadata of safetensors");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
