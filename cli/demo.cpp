// SPDX-License-Identifier: Apache-2.0
#include "commands.h"
#include "console.h"

#include <fmt/format.h>
#include <kedge/kedge.h>

#include <filesystem>
#include <memory>

namespace kedge::cli {
namespace {

constexpr const char* kEncoders[] = {"smollm2-135m", "gemma3-270m", "minilm-l6", "use-multilingual"};
constexpr RowRange kTrain{0, 3000};
constexpr RowRange kTest{3000, 3300};

struct Options {
  std::string data = "data/slm";
  CommonOptions common;
};

struct Contender {
  const char* title;
  Method method;
  Similarity similarity;
  std::vector<Matrix> rr;  ///< of the test rows, one per encoder
};

std::vector<Matrix> transform_test_rows(const Contender& contender, const Options& o) {
  std::vector<Space> train;
  for (const char* encoder : kEncoders) {
    const auto file = (std::filesystem::path(o.data) / encoder).string() + ".npy";
    train.emplace_back(encoder, open_rows(file), kTrain);
  }
  FitOptions options;
  options.method = contender.method;
  options.similarity = contender.similarity;
  const Bundle bundle = fit(train, options, make_progress(o.common));
  std::vector<Matrix> rr;
  for (const Space& space : train) {
    const Space test = space.with_rows(kTest);
    rr.push_back(bundle.map(space.name()).apply(test.read_all().view()));
  }
  return rr;
}

/// The same sentence found again across encoders: one line per ordered pair, one group of columns per contender.
Json print_table(const std::vector<Contender>& contenders, const Options& o) {
  Json records = Json::array();
  const bool table = !o.common.json;
  if (table) {
    fmt::print("\n{:<36}", "");
    for (const Contender& c : contenders) fmt::print("  {:^22}", c.title);
    fmt::print("\n{:<17}  {:<17}", "from", "to");
    for (std::size_t i = 0; i < contenders.size(); ++i) fmt::print("  {:>6}  {:>6}  {:>6}", "R@1", "R@5", "MRR");
    fmt::print("\n{:-<{}}\n", "", 36 + 24 * contenders.size());
  }
  for (std::size_t i = 0; i < std::size(kEncoders); ++i) {
    for (std::size_t j = 0; j < std::size(kEncoders); ++j) {
      if (i == j) continue;
      if (table) fmt::print("{:<17}  {:<17}", kEncoders[i], kEncoders[j]);
      for (const Contender& c : contenders) {
        const Comparison found = compare(c.rr[i].view(), c.rr[j].view());
        if (table) fmt::print("  {:6.1f}  {:6.1f}  {:6.3f}", 100 * found.recall[0], 100 * found.recall[1], found.mrr);
        records.push_back({{"from", kEncoders[i]},
                           {"to", kEncoders[j]},
                           {"method", c.title},
                           {"recall@1", found.recall[0]},
                           {"recall@5", found.recall[1]},
                           {"mrr", found.mrr}});
      }
      if (table) fmt::print("\n");
    }
  }
  return records;
}

void run(const Options& o) {
  o.common.apply();
  const Stopwatch watch;
  std::vector<Contender> contenders = {{"random + cosine", Method::random, Similarity::cosine, {}},
                                       {"k-means + WIP", Method::kmeans, Similarity::wip, {}},
                                       {"consensus", Method::consensus, Similarity::wip, {}}};
  if (!std::filesystem::is_directory(o.data)) {
    throw Error(
        Code::bad_file,
        fmt::format("the demo's embeddings are not in '{}'; run it in kedge's own folder, or give --data", o.data));
  }
  if (!o.common.json && !o.common.quiet) {
    fmt::print(
        "Four encoders that were never trained together embedded the same 3300 sentences. kedge learns 300 shared\n"
        "anchors on 3000 of them. Can the other 300 be found again, one by one, from one encoder to another?\n");
  }
  for (Contender& contender : contenders) contender.rr = transform_test_rows(contender, o);
  print_json(o.common, print_table(contenders, o));
  say(o.common,
      fmt::format("\nR@k: the same sentence is among the k nearest of 300, in %; MRR: mean of 1/rank. {:.1f} s.",
                  watch.seconds()));
}

}  // namespace

void add_demo(CLI::App& app) {
  auto o = std::make_shared<Options>();
  CLI::App* c = app.add_subcommand("demo", "Show what kedge does, on four small encoders that come with it");
  c->add_option("--data", o->data, "Folder of the demo's embeddings")->capture_default_str()->type_name("FOLDER");
  o->common.add_to(*c);
  c->callback([o] { run(*o); });
}

}  // namespace kedge::cli
