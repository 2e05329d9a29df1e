// SPDX-License-Identifier: Apache-2.0
#include "command_line.h"
#include "commands.h"
#include "report.h"
#include "stitch_aloud.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>

namespace kedge::cli {
namespace {

constexpr const char* kEncoders[] = {"smollm2-135m", "gemma3-270m", "minilm-l6", "use-multilingual"};
constexpr const char* kMethods[] = {"ridge", "random-cosine", "param-multi", "consensus"};
constexpr RowRange kTrain{0, 3000};
constexpr RowRange kTest{3000, 3300};
// PARAM gains little after that on these rows, and all 95 epochs take a minute and a half more.
constexpr std::size_t kEpochs = 40;

struct Options {
  std::string data = "data/slm";
  std::string output = "kedge-demo";
  bool no_report = false;
  CommonOptions common;
};

StitchData open_data(const Options& o) {
  if (!std::filesystem::is_directory(o.data)) {
    throw Error(Code::bad_file,
                fmt::format("the demo's embeddings are not in '{}'; run it from kedge's source folder, or give --data",
                            o.data));
  }
  const std::filesystem::path folder(o.data);
  StitchData data;
  for (const char* encoder : kEncoders) {
    data.spaces.emplace_back(encoder, open_rows((folder / encoder).string() + ".npy"));
  }
  data.train = kTrain;
  data.test = kTest;
  data.labels = read_integers((folder / "labels_object.npy").string());
  return data;
}

const Measurement* find(const StitchResults& results, std::string_view method, std::string_view trained_on,
                        std::string_view encoder) {
  const auto found = std::ranges::find_if(results.measurements, [&](const Measurement& m) {
    return m.method == method && m.trained_on == trained_on && m.encoder == encoder;
  });
  return found == results.measurements.end() ? nullptr : &*found;
}

/// The paper's table of language models: how often a sentence is found again in another encoder.
void print_retrieval(const StitchResults& results) {
  fmt::print(
      "\nHow often the same sentence is found across encoders, in %: at rank 1 of 300 (R@1), in the top 5 (R@5)\n\n"
      "{:<36}",
      "");
  for (const char* method : kMethods) fmt::print("  {:^15}", method);
  fmt::print("\n{:<17}  {:<17}", "from", "to (never seen)");
  for (std::size_t i = 0; i < std::size(kMethods); ++i) fmt::print("  {:>6}  {:>7}", "R@1", "R@5");
  fmt::print("\n{:-<{}}\n", "", 36 + 17 * std::size(kMethods));
  for (const char* from : kEncoders) {
    for (const char* to : kEncoders) {
      if (from == to) continue;
      fmt::print("{:<17}  {:<17}", from, to);
      for (const char* method : kMethods) {
        const auto& recall = find(results, method, from, to)->pair.value().recall;
        fmt::print("  {:6.1f}  {:7.1f}", 100 * recall[0], 100 * recall[1]);
      }
      fmt::print("\n");
    }
  }
}

/// Scores of each encoder's own head, and of heads that were trained on other encoders.
void print_heads(const StitchResults& results) {
  fmt::print(
      "\nWhich of 25 objects is the sentence about? Weighted F1 in %: each encoder's own head, and the mean of\n"
      "three heads trained on the other encoders, which never saw this one\n\n{:<17}  {:>9}",
      "encoder", "own head");
  for (const char* method : kMethods) fmt::print("  {:>14}", method);
  fmt::print("\n{:-<{}}\n", "", 28 + 16 * std::size(kMethods));
  for (const char* encoder : kEncoders) {
    fmt::print("{:<17}  {:9.1f}", encoder,
               100 * find(results, "absolute", encoder, encoder)->labels.value().weighted_f1);
    for (const char* method : kMethods) {
      double sum = 0;
      for (const char* head : kEncoders) {
        if (head != encoder) sum += find(results, method, head, encoder)->labels.value().weighted_f1;
      }
      fmt::print("  {:14.1f}", 100 * sum / static_cast<double>(std::size(kEncoders) - 1));
    }
    fmt::print("\n");
  }
}

Json to_json(const StitchResults& results) {
  Json records = Json::array();
  for (const Measurement& m : results.measurements) {
    Json one = {{"method", m.method}, {"from", m.trained_on}, {"to", m.encoder}};
    if (m.labels) one.set("weighted_f1", m.labels->weighted_f1);
    if (m.pair) one.update({{"recall@1", m.pair->recall[0]}, {"recall@5", m.pair->recall[1]}, {"mrr", m.pair->mrr}});
    records.push_back(one);
  }
  return records;
}

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  const StitchData data = open_data(o);
  StitchOptions options;
  options.figures = !o.no_report;
  options.methods = {parse_stitch_method("absolute")};
  for (const char* method : kMethods) options.methods.push_back(parse_stitch_method(method));
  options.points.front().param.epochs = kEpochs;
  if (!o.common.json && !o.common.quiet) {
    fmt::print(
        "Four independently trained encoders embedded the same 3300 sentences. kedge holds each of them out in turn,\n"
        "learns up to 300 anchors from how the other three embed 3000 of the sentences, and gives the encoder it has\n"
        "never seen a map to the same anchors. The baselines are a ridge regression of each encoder on each other one\n"
        "(ridge), which has no shared space, and random anchors compared by cosine (random-cosine). The paper's "
        "anchors\n"
        "(param-multi) are learned for {} epochs here (the default is {}).\n\n",
        kEpochs, Param().epochs);
    std::fflush(stdout);
  }
  const StitchResults results = stitch_aloud(o.output, data, options, true, o.common);
  if (!o.common.json && !o.common.quiet) {
    print_retrieval(results);
    print_heads(results);
  }
  const std::string page = o.no_report ? "" : make_report(o.output);
  print_json(
      o.common,
      {{"records", to_json(results)}, {"report", page.empty() ? Json() : Json(page)}, {"seconds", watch.seconds()}});
  if (o.common.json || o.common.quiet) return;
  fmt::print("\n{:.0f} s. Results and tables are in {}/.\n", watch.seconds(), o.output);
  if (!page.empty()) fmt::print("The report: {}\n", std::filesystem::absolute(page).string());
}

}  // namespace

void add_demo(CommandLine& line) {
  auto o = std::make_shared<Options>();
  Command& c =
      line.add("demo", "Show what kedge does, end to end, on embeddings that come with it from four small encoders");
  c.add("--data", o->data, "Folder with the demo's embeddings").shows_default().takes("FOLDER");
  c.add("-o,--out", o->output, "Folder for results, tables and the report").shows_default().takes("FOLDER");
  c.add_flag("--no-report", o->no_report, "Write results and tables only");
  o->common.add_to(c);
  c.runs([o] { run(*o); });
}

}  // namespace kedge::cli
