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
  std::string a, b;
  RowArguments rows;
  CompareOptions compare;
  CommonOptions common;
};

Json to_json(const Comparison& result, const CompareOptions& options) {
  Json json = {{"rows", result.rows}, {"dim", result.dim}};
  for (const auto& [name, score] : named_scores(result, options)) json.set(name, score ? Json(*score) : Json());
  return json;
}

void run(const Options& o) {
  o.common.apply();
  require_device(o.compare.device);
  const Space a = o.rows.open(name_of_file(o.a), open_rows(o.a));
  const Space b = o.rows.open(name_of_file(o.b), open_rows(o.b));
  if (a.rows() != b.rows() || a.dim() != b.dim()) {
    throw Error(Code::bad_file,
                fmt::format("compare needs the same rows in the same shared space: {} is {} x {}, {} is {} x {}; "
                            "transform both with one bundle",
                            o.a, a.rows(), a.dim(), o.b, b.rows(), b.dim()));
  }
  const Comparison result = compare(a.read_all().view(), b.read_all().view(), o.compare, make_progress(o.common));
  if (o.common.json) {
    print_json(o.common, to_json(result, o.compare));
    return;
  }
  fmt::print("{:<18} {}\n{:<18} {}\n", "rows", result.rows, "dim", result.dim);
  for (const auto& [name, score] : named_scores(result, o.compare)) {
    if (score) {
      fmt::print("{:<18} {:.4f}\n", name, *score);
    } else {
      fmt::print("{:<18} not measured (needs FAISS and more rows than neighbours)\n", name);
    }
  }
}

}  // namespace

void add_compare(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add(
      "compare",
      "Measure how well two encoders agree in the shared space: does row i of the first find row i of the second?");
  c.add("first", o->a, "One encoder's transformed embeddings").required().takes("FILE");
  c.add("second", o->b, "Those of another encoder, for the same inputs in the same order").required().takes("FILE");
  o->rows.add_to(c, "Rows to compare, as FIRST:END [all]");
  add_options(c, options_of(o->compare));
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
