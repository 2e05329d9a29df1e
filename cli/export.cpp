// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/kedge.h>

#include <array>
#include <memory>

namespace kedge::cli {
namespace {

constexpr std::array<std::string_view, 3> kFormats{"safetensors", "npy", "onnx"};  // also the endings of files

struct Options {
  std::string bundle, space, output, format;
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

void run(const Options& o) {
  o.common.apply();
  const Bundle bundle = load_bundle(o.bundle);
  const RelativeMap& map = bundle.map(o.space);
  const std::string format = format_of(o);
  require_other_file(o.output, o.bundle);
  if (format == "npy" && o.output.ends_with(".npy")) {
    const std::string stem = o.output.substr(0, o.output.size() - 4);
    for (const char* part : {"weight", "bias", "mean"})
      require_other_file(fmt::format("{}.{}.npy", stem, part), o.bundle);
  }
  std::vector<std::string> files{o.output};
  if (format == "npy") {
    files = export_npy(map, o.output);
  } else if (format == "onnx") {
    export_onnx(map, o.output);
  } else {
    export_safetensors(map, o.output);
  }
  print_json(o.common, {{"command", "export"}, {"space", o.space}, {"format", format}, {"files", files}});
  say(o.common, fmt::format("wrote {}: the map of '{}', {} -> {} values", fmt::join(files, ", "), o.space,
                            map.input_dim(), map.output_dim()));
}

}  // namespace

void add_export(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("export", "Write one encoder's map for use outside kedge");
  c.add("bundle", o->bundle, "Bundle written by 'kedge fit' or 'kedge attach'").required().takes("BUNDLE");
  c.add("--space", o->space, "Encoder whose map to write").required().takes("NAME");
  c.add("-o,--out", o->output,
        "x.safetensors holds weight and bias, as torch.nn.Linear names them; x.npy becomes x.weight.npy, x.bias.npy "
        "and x.mean.npy; x.onnx is a model that does what 'kedge transform' does")
      .required()
      .takes("FILE");
  c.add("--format", o->format, "File format [from the extension of --out]")
      .one_of({kFormats.begin(), kFormats.end()})
      .takes("NAME");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
