// SPDX-License-Identifier: Apache-2.0
#include "commands.h"
#include "console.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <memory>

namespace kedge::cli {
namespace {

struct Options {
  std::string a, b, rows;
  CompareOptions compare;
  std::string device{to_string(compare.device)};
  CommonOptions common;
};

Json to_json(const Comparison& result, const CompareOptions& options) {
  Json json = {{"rows", result.rows}, {"dim", result.dim}, {"mrr", result.mrr}};
  for (std::size_t i = 0; i < result.recall.size(); ++i) {
    json[fmt::format("recall@{}", options.recall_at[i])] = result.recall[i];
  }
  json["nmse"] = result.nmse;
  json["rr_std_a"] = result.rr_std_a;
  json["rr_std_b"] = result.rr_std_b;
  json["paired_cosine"] = result.paired_cosine;
  json["linear_cka"] = result.linear_cka;
  json["effective_rank_a"] = result.effective_rank_a;
  json["effective_rank_b"] = result.effective_rank_b;
  json[fmt::format("knn_overlap@{}", options.neighbors)] =
      result.knn_overlap ? Json(*result.knn_overlap) : Json(nullptr);
  return json;
}

void run(const Options& o) {
  o.common.apply();
  CompareOptions options = o.compare;
  options.device = parse_device(o.device);
  require_device(options.device);
  const Space a("first", open_rows(o.a), parse_rows(o.rows));
  const Space b("second", open_rows(o.b), parse_rows(o.rows));
  if (a.rows() != b.rows() || a.dim() != b.dim()) {
    throw Error(Code::bad_file,
                fmt::format("compare needs the same rows in the same shared space: {} is {} x {}, {} is {} x {}; "
                            "transform both with one bundle",
                            o.a, a.rows(), a.dim(), o.b, b.rows(), b.dim()));
  }
  const Json json =
      to_json(compare(a.read_all().view(), b.read_all().view(), options, make_progress(o.common)), options);
  if (o.common.json) {
    print_json(o.common, json);
    return;
  }
  for (const auto& [name, value] : json.items()) {
    if (value.is_null()) {
      fmt::print("{:<18} not measured (needs FAISS and more rows than neighbours)\n", name);
    } else if (value.is_number_unsigned()) {
      fmt::print("{:<18} {}\n", name, value.get<std::size_t>());
    } else {
      fmt::print("{:<18} {:.4f}\n", name, value.get<double>());
    }
  }
}

}  // namespace

void add_compare(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand(
      "compare", "Measure how well two encoders agree in the shared space: is row i of the first found in the second?");
  c->add_option("first", o->a, "Transformed embeddings of one encoder")->required()->type_name("FILE");
  c->add_option("second", o->b, "Those of another, of the same inputs in the same order")
      ->required()
      ->type_name("FILE");
  c->add_option("--rows", o->rows, "Rows to compare, as FIRST:END [all]")->type_name("FIRST:END");
  c->add_option("--recall-at", o->compare.recall_at, "Ranks to report recall at, comma separated")
      ->delimiter(',')
      ->take_all()
      ->check(kPositiveCount)
      ->capture_default_str()
      ->type_name("K");
  c->add_option("--neighbors", o->compare.neighbors, "Neighbours counted for the k-NN overlap")
      ->check(kPositiveCount)
      ->capture_default_str()
      ->type_name("K");
  add_device(*c, o->device, "Where ranks are counted");
  o->common.add_to(*c);
  c->callback([o] { run(*o); });
}

}  // namespace kedge::cli
