// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "options.h"
#include "report.h"
#include "row_arguments.h"
#include "stitch_aloud.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>

namespace kedge::cli {
namespace {

constexpr std::size_t kMostSeeds = 10000;

struct Options {
  bool sweep = false;
  FitArguments fit;
  HeadOptions head;
  std::vector<std::string> spaces, methods, similarities, shrinkages, hold_out;
  std::vector<std::size_t> anchors, supports;
  std::string labels, targets, target_shape, support_ids, output;
  RowArguments train, test;
  std::size_t seeds = 1;
  std::uint64_t first_seed = 0;
  std::size_t samples = StitchOptions().samples;
  bool fresh = false, keep_bundles = false, no_report = false;
  CommonOptions common;
};

std::vector<std::size_t> parse_shape(const std::string& text) {
  std::vector<std::size_t> shape;
  std::string_view rest = text;
  for (;;) {
    std::size_t size = 0;
    const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    const bool last = end == rest.data() + rest.size();
    if (problem != std::errc() || size == 0 || (!last && *end != 'x')) {
      throw Error(Code::bad_argument,
                  fmt::format("--target-shape is '{}', expected sizes such as 28x28 or 32x32x3", text));
    }
    shape.push_back(size);
    if (last) return shape;
    rest = {end + 1, rest.data() + rest.size()};
  }
}

void require_rows(const RowArguments& rows, const char* name) {
  if (!rows.given()) throw WrongUsage(fmt::format("--{0} is required, or --{0}-file", name));
}

StitchData data_of(const Options& o) {
  StitchData data;
  for (const std::string& text : o.spaces) data.spaces.push_back(open_space(text));
  require_parallel(data.spaces);
  const std::size_t rows = data.spaces.front().rows();
  require_rows(o.train, "train");
  require_rows(o.test, "test");
  data.train = parse_rows(o.train.range);
  data.test = parse_rows(o.test.range);
  data.train_ids = o.train.ids();
  data.test_ids = o.test.ids();
  if (!o.labels.empty()) {
    data.labels = read_integers(o.labels);
    if (data.labels.size() != rows) {
      throw Error(Code::bad_file, fmt::format("{}: it holds {} labels, but the spaces have {} rows; give one label for "
                                              "each row of their files",
                                              o.labels, data.labels.size(), rows));
    }
  }
  if (!o.targets.empty()) {
    ShapedRows targets = open_shaped_rows(o.targets);
    data.targets = std::move(targets.rows);
    data.target_shape = std::move(targets.shape);
  }
  if (!o.target_shape.empty()) data.target_shape = parse_shape(o.target_shape);
  return data;
}

/// Leaves out, and reports, combinations with more anchors than support rows; the others are still wanted.
void leave_out_aloud(StitchOptions& options, const StitchData& data, const CommonOptions& common) {
  const std::size_t end = std::min(data.train.end, data.spaces.front().rows());
  const std::size_t ids = data.train_ids.ids.size();
  const std::size_t rows = ids > 0 ? ids : end - std::min(data.train.begin, end);
  options = with_defaults(std::move(options), rows);
  for (const FitArguments& point : leave_out_impossible(options.points, rows)) {
    say(common, fmt::format("{} anchors need at least as many support rows, so they are skipped with a support of {}",
                            point.anchors.value(), point.support.value()));
  }
}

/// Warns if rows do not match: heads would not notice, and all their scores depend on it.
void tell_of_rows(const StitchData& data, const CommonOptions& common) {
  for (const std::string& warning : warnings_of_train_rows(data)) say(common, "warning: " + warning);
}

StitchOptions stitch_options_of(const Options& o) {
  FitArguments fit = o.fit;
  fit.support_ids = read_support_ids(o.support_ids);
  StitchOptions options;
  options.methods = parse_stitch_methods(o.methods, o.similarities);
  options.points = sweep_points(fit, o.anchors, o.supports, o.shrinkages);
  options.seeds.clear();
  for (std::size_t i = 0; i < o.seeds; ++i) options.seeds.push_back(o.first_seed + i);
  options.hold_out = o.hold_out;
  options.head = o.head;
  options.samples = o.samples;
  options.figures = !o.no_report;
  if (o.keep_bundles) options.bundle_folder = (std::filesystem::path(o.output) / "bundles").string();
  return options;
}

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  require_device(o.fit.device);
  StitchOptions options = stitch_options_of(o);
  const StitchData data = data_of(o);
  if (o.sweep) leave_out_aloud(options, data, o.common);
  const auto absolute = [](const StitchMethod& method) { return method.anchors == StitchMethod::Anchors::absolute; };
  if (o.labels.empty() && o.targets.empty() && std::ranges::any_of(options.methods, absolute)) {
    say(o.common,
        "without --labels or --targets no heads are trained: only retrieval is measured, and nothing for absolute");
  }
  const auto multi = [](const StitchMethod& method) { return method.anchors == StitchMethod::Anchors::param_multi; };
  if (data.spaces.size() == 2 && std::ranges::any_of(options.methods, multi)) {
    say(o.common,
        "with two spaces and one held out, param-multi has only one source to learn from, just like param-single");
  }
  const StitchResults results = stitch_aloud(o.output, data, options, o.fresh, o.common);
  tell_of_rows(data, o.common);
  const std::string page = o.no_report ? "" : make_report(o.output);
  say(o.common, "\n" + text_summary(results));
  say(o.common, fmt::format("wrote {} records, tables and figures to {}{}, {:.1f} s", results.measurements.size(),
                            o.output, page.empty() ? "" : "; open " + page, watch.seconds()));
  print_json(o.common, {{"command", o.sweep ? "sweep" : "stitch"},
                        {"folder", o.output},
                        {"records", results.measurements.size()},
                        {"means", means_to_json(results)},
                        {"report", page.empty() ? Json() : Json(page)},
                        {"seconds", watch.seconds()}});
}

void add_data_options(Command& c, Options& o) {
  c.add_repeated("--space", o.spaces,
                 "One encoder's embeddings; repeat for each encoder. Row n of every file must embed the same input n")
      .required()
      .takes("NAME=FILE");
  o.train.add_to(c, "Rows to learn anchors, whitening and heads from, as FIRST:END; required, or --train-file",
                 "--train");
  o.test.add_to(c, "Rows to test them on, none of them a train row; required, or --test-file", "--test");
  c.add("--labels", o.labels, "Class of each row, as an .npy of integers; without it no classifiers are trained")
      .takes("FILE");
  c.add("--targets", o.targets,
        "What decoders learn to reproduce for each row: rows x values, or images as rows x height x width; uint8 is "
        "fine too")
      .takes("FILE");
  c.add("--target-shape", o.target_shape, "Shape of one target as an image, for the report, if the file does not say")
      .takes("HxW");
  c.add("-o,--out", o.output, "Folder for results, tables and the report; results already there are not computed again")
      .required()
      .takes("FOLDER");
}

void add_run_options(Command& c, Options& o) {
  c.add_list(
       "--methods", o.methods,
       "absolute, ridge (of each pair, as a baseline), or anchors (random, kmeans, fps, param-single, "
       "param-multi, consensus) with a similarity (wip by default), e.g. random-cosine; a final -ridge or -kernel "
       "makes maps that way")
      .shows_default();
  c.add("--seeds", o.seeds, "Number of seeds to run everything with")
      .at_least_one()
      .at_most(kMostSeeds)
      .shows_default()
      .takes("N");
  c.add("--seed", o.first_seed, "First seed").shows_default().takes("N");
  c.add_repeated("--hold-out", o.hold_out, "Hold out only this space; repeat for several [each in turn]", true)
      .takes("NAME");
  c.add_flag("--fresh", o.fresh, "Recompute everything, even if the folder already has results");
  c.add_flag("--keep-bundles", o.keep_bundles, "Also save every bundle, in FOLDER/bundles");
  c.add_flag("--no-report", o.no_report, "Write results and tables only");
}

/// The options of which a sweep takes lists.
void add_swept_options(Command& c, Options& o) {
  o.shrinkages = {fmt::format("{}", o.fit.whitening.shrinkage)};
  c.add_list("--similarity", o.similarities, "Similarities for methods named without one").one_of(similarity_names());
  c.add_list("--anchors", o.anchors,
             fmt::format("Numbers of anchors [{}, or as many as there are support rows if fewer]",
                         FitOptions::kDefaultAnchors))
      .at_least_one();
  c.add_list(
       "--support", o.supports,
       fmt::format("Numbers of rows to make anchors from [{}, or {} if a method makes maps by kernel, or all if fewer]",
                   FitOptions::kDefaultSupport, FitOptions::kKernelSupport))
      .at_least_one();
  c.add_list("--shrinkage", o.shrinkages,
             "How far to shrink the covariance towards a sphere, 0 to 1 (wip); or auto, ledoit-wolf, oas")
      .shows_default();
}

void add_fit_options(Command& c, Options& o) {
  // Methods and seeds are lists here, and no bundle is the result.
  std::set<std::string_view> without{"method",     "similarity",       "keep",   "seed",     "attach",
                                     "checkpoint", "checkpoint-every", "resume", "keep-rows"};
  if (o.sweep) {
    add_swept_options(c, o);
    without.insert({"anchors", "support", "shrinkage"});
  }
  add_options(c, options_of(o.fit), {{"param", "Learning (param)"}, {"consensus", "Consensus"}}, without);
  add_support_ids(c, o.support_ids);
}

void add_head_options(Command& c, Options& o) {
  const std::string title = "Heads";
  add_options(c, options_of(o.head), {{"head", title}});
  c.add("--samples", o.samples, "Number of test rows whose decoded targets the report shows")
      .shows_default()
      .takes("N")
      .group(title);
}

void add_command(CommandLine& line, bool sweep, const char* name, const char* help) {
  auto o = std::make_shared<Options>();
  o->sweep = sweep;
  const auto& methods = sweep ? kSweepMethods : kStitchMethods;
  o->methods.assign(methods.begin(), methods.end());
  Command& c = line.add(name, help);
  add_data_options(c, *o);
  add_run_options(c, *o);
  add_head_options(c, *o);
  add_fit_options(c, *o);
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace

void add_stitch(CommandLine& line) {
  add_command(line, false, "stitch",
              "Hold each encoder out in turn and measure how well heads trained on the others work on it; writes "
              "tables and a report");
}

void add_sweep(CommandLine& line) {
  add_command(line, true, "sweep",
              "Stitch with every combination of anchor count, support size, similarity and shrinkage");
}

}  // namespace kedge::cli
