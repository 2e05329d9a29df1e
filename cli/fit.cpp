// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "console.h"
#include "ids.h"
#include "io/outputs.h"
#include "options.h"
#include "row_arguments.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <utility>

namespace kedge::cli {
namespace {

struct Options {
  FitArguments fit;
  std::vector<std::string> spaces, moments;
  bool support_rows = false;
  std::string output, ids, pairs, support_ids, history;
  RowArguments rows;
  bool validate = false;
  CommonOptions common;
};

void write_history(const std::vector<Losses>& history, const std::string& path) {
  std::string text = "epoch,total,symnce,coverage,orthogonality,length\n";
  for (std::size_t i = 0; i < history.size(); ++i) {
    const Losses& l = history[i];
    text += fmt::format("{},{},{},{},{},{}\n", i + 1, l.total, l.symnce, l.coverage, l.orthogonality, l.length);
  }
  save_text(path, text);
}

FitOptions fit_options_of(const Options& o) {
  FitArguments options = o.fit;
  options.support_ids = read_support_ids(o.support_ids);
  require_own_options(options);
  CheckpointOptions& checkpoint = options.param.checkpoint;
  if (std::holds_alternative<Param>(options.method)) {
    if (checkpoint.path.empty()) checkpoint.path = o.output + ".checkpoint";
    if (checkpoint.resume && !std::filesystem::exists(checkpoint.path)) {
      throw Error(Code::bad_argument,
                  fmt::format("there is nothing to resume: '{}' does not exist; leave out --resume to "
                              "start from scratch",
                              checkpoint.path));
    }
  }
  return fit_options(options);
}

/// Empty for a method that keeps none.
std::string checkpoint_of(const FitOptions& options) {
  const auto* param = std::get_if<Param>(&options.method);
  return param == nullptr ? "" : param->checkpoint.path;
}

/// Without --space there must be moments, and no option that needs rows.
void require_moments_alone(const Options& o) {
  if (!o.spaces.empty()) return;
  if (o.moments.empty()) {
    throw Error(Code::bad_argument,
                "there is nothing to fit: give --space NAME=FILE for each encoder, or --moments FILE with moments that "
                "carry the support rows");
  }
  const std::pair<const char*, bool> about_rows[]{
      {"--rows", o.rows.given()},         {"--ids", !o.ids.empty()},
      {"--pairs", !o.pairs.empty()},      {"--support-ids", !o.support_ids.empty()},
      {"--support-rows", o.support_rows}, {"--validate", o.validate}};
  for (const auto& [name, given] : about_rows) {
    if (!given) continue;
    throw Error(
        Code::bad_argument,
        fmt::format("{} is about the rows of --space, but there are only moments; leave it out, or give --space",
                    name));
  }
}

void require_support_rows(const Options& o) {
  if (o.validate && !o.moments.empty()) {
    throw Error(Code::bad_argument,
                "--validate fits again without each space and reads all rows for it; leave out --moments");
  }
  if (!o.support_rows) return;
  if (o.moments.empty()) {
    throw Error(Code::bad_argument,
                "--support-rows says that files hold only the support, so that moments of all rows are needed too; "
                "give --moments FILE, which 'kedge moments' writes");
  }
  if (o.support_ids.empty()) {
    throw Error(Code::bad_argument,
                "--support-rows needs --support-ids FILE, to say which rows the files hold, in their order");
  }
  if (!o.ids.empty() || !o.pairs.empty()) {
    throw Error(Code::bad_argument,
                fmt::format("--support-rows says that files hold only the support, in its order, so that there is "
                            "nothing to {}; leave out one of them",
                            o.ids.empty() ? "find by --pairs" : "draw by --ids"));
  }
}

FitRows open_rows(const Options& o) {
  FitRows rows;
  for (const std::string& text : o.spaces) rows.spaces.push_back(o.rows.open(text));
  if (!o.pairs.empty()) {
    rows.spaces = pair_rows(rows.spaces, read_integer_rows(o.pairs, o.spaces.size(), "a row number of each --space"));
  }
  if (!o.moments.empty()) rows.moments = load_all_moments(o.moments);
  if (!o.ids.empty()) rows.ids = read_ids_of(o.ids);
  rows.support_rows = o.support_rows;
  return rows;
}

/// For whoever asked for the best effort, of which refinement is a part where it pays.
std::string tell_of_no_refinement(const FitOptions& options, const Bundle& bundle) {
  const auto* asked = std::get_if<Consensus>(&options.method);
  if (options.effort != Effort::best || asked == nullptr || asked->refinement.epochs || bundle.spaces().size() < 2 ||
      !bundle.anchors().refine_losses.empty()) {
    return "";
  }
  return fmt::format("{}, so the best effort is maps by kernel",
                     options.robust ? "refinement would learn from wrong rows too"
                                    : "there are no rows but the support to refine targets by");
}

std::vector<Moments::Part> parts_of(const FitRows& rows) {
  if (rows.spaces.empty()) return rows.moments.value().parts();
  std::vector<Moments::Part> named;
  for (const Space& space : rows.spaces) named.push_back({space.name(), space.dim()});
  return named;
}

Bundle fit_given(const FitRows& given, const Options& o, const FitOptions& options) {
  const Progress progress = make_progress(o.common);
  try {
    return fit(read_input(given, options, progress), options, progress);
  } catch (const RepeatedId& problem) {
    refuse_repeated(problem, o.ids);
  } catch (const Interrupted&) {
    const std::string checkpoint = checkpoint_of(options);
    if (checkpoint.empty() || !std::filesystem::exists(checkpoint)) throw;
    throw Interrupted(fmt::format("interrupted; the same command with --resume continues from '{}'", checkpoint));
  }
}

/// Saves the bundle, then removes its checkpoint.
void finish(const Bundle& bundle, const Options& o, const FitOptions& options) {
  save_bundle(bundle, o.output);
  if (!o.history.empty()) write_history(bundle.anchors().history, o.history);
  remove_checkpoint(options);
}

/// Estimates how an encoder that is not here yet will score.
Json validate_and_show(std::span<const Space> spaces, const Options& o, const FitOptions& options) {
  CompareOptions what;
  what.device = options.device;
  Json json = Json::array();
  std::vector<double> sums(2 + what.recall_at.size());
  std::string table = fmt::format("{:<20} {:>8}", "held out", "MRR");
  for (const std::size_t k : what.recall_at) table += fmt::format(" {:>8}", fmt::format("R@{}", k));
  table += fmt::format(" {:>8}", "nMSE");
  const std::vector<HeldOutScore> scores = validate(spaces, options, what, make_progress(o.common));
  const auto add_line = [&](const std::string& name, std::span<const double> values) {
    table += fmt::format("\n{:<20}", name);
    for (const double value : values) table += fmt::format(" {:>8.4f}", value);
  };
  for (const HeldOutScore& score : scores) {
    std::vector<double> values{score.mrr};
    values.insert(values.end(), score.recall.begin(), score.recall.end());
    values.push_back(score.nmse);
    for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i] / static_cast<double>(scores.size());
    add_line(score.space, values);
    Json one = {{"held_out", score.space}, {"rows", score.rows}, {"mrr", score.mrr}, {"nmse", score.nmse}};
    for (std::size_t i = 0; i < what.recall_at.size(); ++i) {
      one.set(fmt::format("recall@{}", what.recall_at[i]), score.recall[i]);
    }
    json.push_back(one);
  }
  add_line("mean", sums);
  say(o.common, fmt::format("how an encoder the fit never saw scores, on {} rows it never saw either:\n{}",
                            scores.front().rows, table));
  return json;
}

Json spaces_to_json(std::span<const Moments::Part> parts, const Bundle& bundle) {
  Json all = Json::array();
  for (const Moments::Part& part : parts) {
    Json one = {{"name", part.space}, {"dim", part.dim}};
    one.update(fit_to_json(bundle.space(part.space)));
    all.push_back(one);
  }
  return all;
}

void run(Options& o) {
  o.common.apply();
  const Stopwatch watch;
  require_device(o.fit.device);
  const FitOptions options = fit_options_of(o);
  const bool param = std::holds_alternative<Param>(options.method);
  if (!o.history.empty() && !param) {
    throw Error(Code::bad_argument, fmt::format("--history belongs to the method param, but the method is {}; choose "
                                                "--method param, or leave out --history",
                                                to_string(options.method)));
  }
  require_moments_alone(o);
  require_support_rows(o);
  const std::string checkpoint = checkpoint_of(options);
  const std::array outputs{o.output, o.history, checkpoint};
  require_different(outputs);
  for (const std::string& output : outputs) {
    for (const std::string& space : o.spaces) require_other_file(output, file_of(space));
    require_other_file(output, o.support_ids);
    require_other_file(output, o.ids);
    require_other_file(output, o.pairs);
    require_other_file(output, o.rows.file);
    for (const std::string& moments : o.moments) require_other_file(output, moments);
  }
  require_replaceable(o.output, ResultKind::bundle);
  const auto writable = require_writable(o.output);
  const auto history_writable = o.history.empty() ? nullptr : require_writable(o.history);
  const FitRows given = open_rows(o);
  const std::vector<Moments::Part> parts = parts_of(given);
  const std::size_t rows = given.moments ? given.moments->rows() : given.spaces.front().rows();
  if (o.validate && given.spaces.size() < 3) {
    throw Error(Code::bad_argument, fmt::format("--validate holds each space out in turn and needs three or more, but "
                                                "{} were given",
                                                given.spaces.size()));
  }

  std::vector<std::size_t> dims;
  for (const Moments::Part& part : parts) dims.push_back(part.dim);
  tell_cost(o.common, fit_cost(options, dims, given.spaces.empty() ? rows : given.spaces.front().rows()), "this fit");
  const Json validation = o.validate ? validate_and_show(given.spaces, o, options) : Json();
  const Bundle bundle = fit_given(given, o, options);
  finish(bundle, o, options);

  const std::size_t keep = keep_of(bundle.made().method).value_or(0);
  Json summary = {{"command", "fit"},
                  {"bundle", o.output},
                  {"method", to_string(options.method)},
                  {"similarity", to_string(options.similarity)},
                  {"anchors", bundle.anchors().mixture.rows()},
                  {"support", bundle.anchors().support_ids.size()},
                  {"support_select", to_string(bundle.made().support_select)},
                  {"keep", keep},
                  {"rows", rows},
                  {"seed", bundle.made().seed},
                  {"device", to_string(options.device)},
                  {"spaces", spaces_to_json(parts, bundle)},
                  {"seconds", watch.seconds()}};
  if (options.device == Device::cuda) summary.set("precision", to_string(options.precision));
  if (!bundle.anchors().history.empty()) {
    summary.set("losses", losses_to_json(bundle.anchors().history.back()));
  }
  if (!validation.is_null()) summary.set("validation", validation);
  if (!bundle.anchors().refine_losses.empty()) summary.set("refine_losses", bundle.anchors().refine_losses);
  print_json(o.common, summary);
  if (const std::string left_out = tell_of_no_refinement(options, bundle); !left_out.empty()) say(o.common, left_out);
  if (!bundle.anchors().refine_losses.empty()) {
    const auto best = std::ranges::min_element(bundle.anchors().refine_losses);
    say(o.common,
        fmt::format("refinement brought the loss on held-out rows from {:.4f} to {:.4f} in {} epochs",
                    bundle.anchors().refine_losses.front(), *best, best - bundle.anchors().refine_losses.begin()));
  }
  say_how_it_fits(o.common, bundle, bundle.spaces());
  if (options.keep_rows) {
    std::size_t bytes = 0;
    for (const Attachment& space : bundle.spaces()) bytes += sizeof(float) * space.kept->rows.cells().size();
    say(o.common, fmt::format("the bundle keeps the support rows of every space, which take {:.1f} MB of it",
                              static_cast<double>(bytes) / 1e6));
  }
  if (const std::string fewer = tell_of_fewer_anchors(bundle, options); !fewer.empty()) say(o.common, fewer);
  const std::string left = keep == 0 ? "" : fmt::format(" (all that --keep {} left)", keep);
  say(o.common,
      fmt::format("wrote {}: {} anchors ({}, {}) from {} support rows{}, maps for {} space(s), {:.2f} s", o.output,
                  bundle.anchors().mixture.rows(), to_string(options.method), to_string(options.similarity),
                  bundle.anchors().support_ids.size(), left, bundle.spaces().size(), watch.seconds()));
}

}  // namespace

void add_fit(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c = line.add("fit", "Learn anchors that several encoders share, from embeddings of the same inputs");
  c.add_repeated(
       "--space", o->spaces,
       "One encoder's embeddings; repeat for each encoder. Row n of every file must embed "
       "the same input n. Files: .npy, .safetensors#tensor, .fvecs. Not needed if --moments carry the support "
       "rows")
      .takes("NAME=FILE");
  c.add("-o,--out", o->output, "Bundle to write").required().takes("FILE");
  o->rows.add_to(c, "Rows to learn from, as FIRST:END, END excluded [all]");
  const std::string learning = "Learning (--method param)";
  add_options(c, options_of(o->fit), {{"param", learning}, {"consensus", "Consensus (--method consensus)"}});
  add_support_ids(c, o->support_ids);
  add_moments_files(
      c, o->moments,
      "Take statistics from these moments of all rows ('kedge moments') instead of from the files; one file for each "
      "part");
  add_ids(c, o->ids,
          "to draw the support by as 'kedge moments' does; the bundle then keeps ids instead of row numbers");
  c.add("--pairs", o->pairs,
        "Which rows belong together, where files are in other orders or hold other rows too: an .npy of integers with "
        "a column of row numbers, from 0, for each --space. Each row of the first may be in one pair; the bundle keeps "
        "its number")
      .takes("FILE");
  c.add_flag("--support-rows", o->support_rows,
             "The files hold only the support rows: those of --support-ids, in that order. Needs --moments");
  c.get("--checkpoint").help("File that keeps the state of training [OUT.checkpoint]; removed when done");
  c.add("--history", o->history, "Also write the losses of every epoch as CSV").takes("FILE").group(learning);
  c.add_flag("--validate", o->validate,
             "Also hold each space out in turn, fit the others and report how well it scores: an estimate for an "
             "unseen encoder. Needs three spaces or more");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
