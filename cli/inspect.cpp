// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "looks_like.h"

#include <fmt/format.h>
#include <kedge/kedge.h>
#include <kedge/options/lists.h>

#include <algorithm>
#include <memory>
#include <variant>

namespace kedge::cli {
namespace {

struct Options {
  std::string bundle;
  std::vector<std::string> like;
  CommonOptions common;
};

bool is_source(const Bundle& bundle, const std::string& space) {
  return std::ranges::find(bundle.made().sources, space) != bundle.made().sources.end();
}

Json spaces_to_json(const Bundle& bundle) {
  Json all = Json::array();
  for (const Attachment& space : bundle.spaces()) {
    Json one = {{"name", space.space()}, {"dim", space.map->input_dim()}, {"fitted", is_source(bundle, space.space())}};
    one.update(fit_to_json(space));
    if (space.decoder) one.set("decoder", ridge_to_json(space.decoder->fit));
    if (space.kept) one.set("kept_rows", space.kept->rows.rows());
    all.push_back(one);
  }
  return all;
}

Json param_to_json(Param options) {
  Json json;
  for (const Option& option : options_of(options)) {
    if (option.name == "coverage-chunk") continue;  // it changes no result
    const std::string name = option.name == "lr" ? "learning_rate" : keyword_of(option);
    json.set(name, std::visit([](const auto& value) { return Json(value); }, value_of(option)));
  }
  return json;
}

Json to_json(const Bundle& bundle, const std::string& path) {
  const Recipe& made = bundle.made();
  Json json = {{"bundle", path},
               {"kedge_version", made.kedge_version},
               {"method", to_string(made.method)},
               {"similarity", to_string(made.similarity)},
               {"anchors", bundle.anchors().mixture.rows()},
               {"support", bundle.anchors().support_ids.size()},
               {"support_select", to_string(made.support_select)},
               {"support_by", bundle.anchors().by_id ? "id" : "row"},
               {"rows", std::vector{made.rows.begin, made.rows.end}},
               {"seed", made.seed},
               {"shrinkage", made.whitening.shrinkage},
               {"shrinkage_rule", to_string(made.shrinkage_rule)},
               {"epsilon", made.whitening.epsilon},
               {"attach", to_string(made.attach_by)},
               {"spaces", spaces_to_json(bundle)},
               {"support_ids", bundle.anchors().support_ids}};
  if (const auto keep = keep_of(made.method)) json.set("keep", *keep);
  if (const auto* param = std::get_if<Param>(&made.method)) {
    json.set("param", param_to_json(*param));
    Json history = Json::array();
    for (const Losses& losses : bundle.anchors().history) history.push_back(losses_to_json(losses));
    json.set("history", history);
  }
  return json;
}

std::string r2_of(const Bundle& bundle, const Attachment& space) {
  if (!has_meaningful_r2(bundle, space)) return "-";
  if (space.ridge() != nullptr) return fmt::format("{:.3f}", space.ridge()->mean_r2);
  if (space.kernel() != nullptr) return fmt::format("{:.3f}", space.kernel()->mean_r2);
  return space.mixture() != nullptr ? fmt::format("{:.3f}", space.mixture()->mean_r2) : "-";
}

/// What was chosen for the regression of a space.
std::string regression_of(const Attachment& space) {
  if (space.kernel() != nullptr) {
    return fmt::format("g {:g}, l {:g}, w {:g}", space.kernel()->width, space.kernel()->strength,
                       space.kernel()->whitening);
  }
  if (space.ridge() == nullptr) return "-";
  const RidgeFit& ridge = *space.ridge();
  return fmt::format("ridge {:g}{}", ridge.strength,
                     ridge.whitening == 1   ? ""
                     : ridge.whitening == 0 ? " raw"
                                            : " half");
}

/// Which spaces keep how many support rows; empty if none does.
std::string describe_kept(const Bundle& bundle) {
  std::string all;
  for (const Attachment& space : bundle.spaces()) {
    if (space.kept) all += fmt::format("{}{} {}", all.empty() ? "" : ", ", space.space(), space.kept->rows.rows());
  }
  return all.empty() ? "" : "support rows that are kept, with which a translation regresses its own pair: " + all;
}

void print_spaces(const Bundle& bundle) {
  std::size_t width = 5, chosen = 10;  // widths of the headings
  for (const Attachment& space : bundle.spaces()) {
    width = std::max(width, space.space().size());
    chosen = std::max(chosen, regression_of(space).size());
  }
  fmt::print("\n  {:<{}}  {:>6}  {:<8}  {:<8}  {:>{}}  {:>6}  {:>10}  {:>8}\n", "space", width, "dim", "added by",
             "map by", "regression", chosen, "R^2", "decode R^2", "same row");
  for (const Attachment& space : bundle.spaces()) {
    fmt::print(
        "  {:<{}}  {:>6}  {:<8}  {:<8}  {:>{}}  {:>6}  {:>10}  {:>8}\n", space.space(), width, space.map->input_dim(),
        is_source(bundle, space.space()) ? "fit" : "attach", to_string(space.by), regression_of(space), chosen,
        r2_of(bundle, space),
        space.decoder && has_meaningful_r2(bundle, space) ? fmt::format("{:.3f}", space.decoder->fit.mean_r2) : "-",
        space.row_check ? percent(space.row_check->found_first) : "-");
  }
  if (std::ranges::any_of(bundle.spaces(),
                          [](const Attachment& space) { return space.ridge() != nullptr || space.decoder; })) {
    fmt::print("\n  R^2 of a ridge and of a decoder is an estimate by generalised cross-validation\n");
  }
  if (std::ranges::any_of(bundle.spaces(), [](const Attachment& space) { return space.kernel() != nullptr; })) {
    fmt::print("\n  of a kernel: g is its width, l its strength, w the whitening of the rows it compares\n");
  }
}

void run(const Options& o) {
  o.common.apply();
  if (!o.like.empty()) return say_what_it_looks_like(o.common, o.bundle, o.like);
  const Bundle bundle = load_bundle(o.bundle);
  const Recipe& made = bundle.made();
  if (o.common.json) {
    print_json(o.common, to_json(bundle, o.bundle));
    return;
  }
  fmt::print("{}: made by kedge {}\n", o.bundle, made.kedge_version);
  fmt::print("  anchors     {} ({})\n", bundle.anchors().mixture.rows(), to_string(made.method));
  fmt::print("  similarity  {}\n", to_string(made.similarity));
  const bool selected = made.support_select != SupportSelect::random;
  if (bundle.anchors().by_id) {
    fmt::print("  support     {} rows, drawn by id\n", bundle.anchors().support_ids.size());
  } else {
    fmt::print("  support     {} of rows {}:{}{}\n", bundle.anchors().support_ids.size(), made.rows.begin,
               made.rows.end, selected ? fmt::format(" ({})", to_string(made.support_select)) : "");
  }
  if (const auto keep = keep_of(made.method))
    fmt::print("  kept        the {} largest weights of each anchor\n", *keep);
  fmt::print("  seed        {}\n", made.seed);
  if (made.shrinkage_rule == ShrinkageRule::fixed) {
    fmt::print("  shrinkage   {} (epsilon {})\n", made.whitening.shrinkage, made.whitening.epsilon);
  } else {
    fmt::print("  shrinkage   {} (epsilon {})\n", to_string(made.shrinkage_rule), made.whitening.epsilon);
  }
  if (!bundle.anchors().history.empty()) {
    fmt::print("  learned     {} epochs, total loss {:.3f} to {:.3f}\n", bundle.anchors().history.size(),
               bundle.anchors().history.front().total, bundle.anchors().history.back().total);
  }
  for (const std::string& warning : warnings_of_rows(bundle, bundle.spaces())) fmt::print("\n  warning: {}\n", warning);
  print_spaces(bundle);
  for (const Attachment& space : bundle.spaces()) {
    if (space.reverse_fit() != nullptr && has_meaningful_r2(bundle, space))
      fmt::print("\n  {}\n", describe_reverse(space));
  }
  const std::string rows = describe_rows(bundle.spaces());
  if (!rows.empty()) fmt::print("\n  {}\n", rows);
  if (const std::string kept = describe_kept(bundle); !kept.empty()) fmt::print("\n  {}\n", kept);
  for (const Attachment& space : bundle.spaces()) {
    if (space.choice() != nullptr && has_meaningful_r2(bundle, space)) fmt::print("  {}\n", describe_choice(space));
  }
}

}  // namespace

void add_inspect(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c =
      line.add("inspect", "Show what a bundle holds and how it was made, or which model made the rows of a file");
  c.add("bundle", o->bundle, "Bundle written by 'kedge fit' or 'kedge attach'; with --like, rows of any kind")
      .required()
      .takes("FILE");
  c.add_many("--like", o->like,
             "Say which of these models' vectors the rows of FILE look like, and whether two models are mixed in it. "
             "Each is a file of rows that are known to be of the model, a thousand or more, or of moments")
      .takes("[NAME=]FILE");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
