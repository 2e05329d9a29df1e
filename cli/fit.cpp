// SPDX-License-Identifier: Apache-2.0
#include "commands.h"
#include "console.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <memory>

namespace kedge::cli {
namespace {

struct Options {
  FitOptions fit;
  std::vector<std::string> spaces;
  std::string output, rows, support_ids, device = "cpu";
  std::string method{to_string(fit.method)};
  std::string similarity{to_string(fit.similarity)};
  CommonOptions common;
};

void run(Options& o) {
  o.common.apply();
  const Stopwatch watch;
  require_device(parse_device(o.device));
  o.fit.method = parse_method(o.method);
  o.fit.similarity = parse_similarity(o.similarity);
  if (!o.support_ids.empty()) o.fit.support_ids = read_integers(o.support_ids);
  std::vector<Space> spaces;
  for (const std::string& text : o.spaces) spaces.push_back(open_space(text, parse_rows(o.rows)));

  const Bundle bundle = fit(spaces, o.fit, make_progress(o.common));
  save_bundle(bundle, o.output);

  Json summary = {{"command", "fit"},
                  {"bundle", o.output},
                  {"method", o.method},
                  {"similarity", o.similarity},
                  {"anchors", bundle.mixture.rows()},
                  {"support", bundle.support_ids.size()},
                  {"rows", spaces.front().rows()},
                  {"seed", bundle.seed},
                  {"spaces", Json::array()},
                  {"seconds", watch.seconds()}};
  for (const Space& space : spaces) summary["spaces"].push_back({{"name", space.name()}, {"dim", space.dim()}});
  print_json(o.common, summary);
  say(o.common, fmt::format("wrote {}: {} anchors ({}, {}) from {} support rows, maps for {} space(s), {:.2f} s", o.output,
                            bundle.mixture.rows(), o.method, o.similarity, bundle.support_ids.size(), spaces.size(),
                            watch.seconds()));
}

}  // namespace

void add_fit(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("fit", "Learn anchors that several encoders share, from embeddings of the same inputs");
  c->add_option("--space", o->spaces, "One encoder's embeddings; repeat for each encoder. Row n of every file must embed "
                                      "the same input n. Files: .npy, .safetensors#tensor, .fvecs")
      ->required()->type_name("NAME=FILE")->take_all()->allow_extra_args(false);
  c->add_option("-o,--out", o->output, "Bundle to write")->required()->type_name("FILE");
  c->add_option("--rows", o->rows, "Rows to learn from, as FIRST:END with END not included [all]")->type_name("FIRST:END");
  c->add_option("--method", o->method, "How anchors are found")
      ->check(CLI::IsMember(method_names()))->capture_default_str()->type_name("NAME");
  c->add_option("--similarity", o->similarity, "How an embedding is compared with an anchor")
      ->check(CLI::IsMember(similarity_names()))->capture_default_str()->type_name("NAME");
  c->add_option("--anchors", o->fit.anchors, "Number of anchors, which is the dimension of the shared space")
      ->capture_default_str()->type_name("N");
  auto* support = c->add_option("--support", o->fit.support,
                                fmt::format("Number of rows anchors are made of [{}, or all if fewer]",
                                            FitOptions::kDefaultSupport))
                      ->check(CLI::PositiveNumber)->type_name("N");
  c->add_option("--support-ids", o->support_ids, "Those rows themselves: an .npy of int64 row numbers of the files")
      ->excludes(support)->type_name("FILE");
  c->add_option("--seed", o->fit.seed, "Same seed, same bundle")->capture_default_str()->type_name("N");
  c->add_option("--shrinkage", o->fit.whitening.shrinkage, "Pull of the covariance towards a sphere, 0 to 1 (wip)")
      ->capture_default_str()->type_name("X");
  c->add_option("--epsilon", o->fit.whitening.epsilon, "Added to the covariance's diagonal (wip)")
      ->capture_default_str()->type_name("X");
  c->add_option("--device", o->device, "Where to compute")->check(CLI::IsMember({"cpu", "cuda"}))->capture_default_str()->type_name("NAME");
  o->common.add_to(*c);
  c->callback([o] { run(*o); });
}

}  // namespace kedge::cli
