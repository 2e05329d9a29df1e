// SPDX-License-Identifier: Apache-2.0
// Where the time of a step of PARAM goes: each of its stages is repeated alone, as a graph, so that it costs what it
// costs in the step if nothing is beside it.
#include "anchors/param/trainer.h"
#include "collecting_backend.h"
#include "measure.h"

#include <fmt/format.h>

#include <numeric>

namespace kedge::bench {

void CollectingBackend::keep(const char* name, ConstPanel shape, std::size_t inner, std::function<void(Backend&)> run) {
  Stage stage{name, {fmt::format("{} x {}", shape.rows, shape.cols)}, 0, beside_, std::move(run)};
  if (inner > 0) {
    stage.shapes[0] += fmt::format(" x {}", inner);
    stage.flops = 2.0 * static_cast<double>(shape.rows * shape.cols) * static_cast<double>(inner);
  }
  if (branches_.empty()) return add(std::move(stage));
  branches_.back().push_back(std::move(stage));
}

void CollectingBackend::add(Stage stage) {
  stage.run(inner_);
  stages_.push_back(std::move(stage));
}

void CollectingBackend::side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  for (std::size_t i = 0; i < count; ++i) {
    branches_.emplace_back();
    work(i);
  }
  const auto branches = std::exchange(branches_, {});
  std::size_t longest = 0;
  for (const auto& branch : branches) longest = std::max(longest, branch.size());
  for (std::size_t place = 0; place < longest; ++place) {
    Stage all{"", {}, 0, beside_, {}};
    std::vector<std::function<void(Backend&)>> runs;
    for (const auto& branch : branches) {
      if (place >= branch.size()) continue;
      const Stage& each = branch[place];
      if (all.name.find(each.name) == std::string::npos) all.name += (all.name.empty() ? "" : " + ") + each.name;
      all.shapes.push_back(each.shapes[0]);
      all.flops += each.flops;
      runs.push_back(each.run);
    }
    all.run = [runs](Backend& on) { on.side_by_side(runs.size(), [&](std::size_t i) { runs[i](on); }); };
    add(std::move(all));
  }
}

void CollectingBackend::beside(const std::function<void()>& first, const std::function<void()>& second) {
  first();
  beside_ = true;
  second();
  beside_ = false;
}

namespace {

constexpr std::size_t kInGraph = 20, kGraphs = 20, kRounds = 3;

void wait(Backend& backend, Tensor& tensor) {
  Matrix corner(1, 1);
  backend.download(tensor.panel().top_rows(1).columns(0, 1), corner.view());
}

double microseconds_of(Backend& backend, Tensor& touched, const Stage& stage) {
  const auto recording = backend.record([&] {
    for (std::size_t i = 0; i < kInGraph; ++i) stage.run(backend);
  });
  recording->run(2);
  std::vector<double> rounds;
  for (std::size_t round = 0; round < kRounds; ++round) {
    wait(backend, touched);
    rounds.push_back(seconds_of([&] {
      recording->run(kGraphs);
      wait(backend, touched);
    }));
  }
  return 1e6 * median(rounds) / (kInGraph * kGraphs);
}

}  // namespace

nlohmann::json measure_stages(Precision precision, std::size_t support) {
  constexpr std::size_t kRows = 50'000, kAnchors = 300;
  const auto gpu = make_backend(Device::cuda, precision);
  CollectingBackend collecting(*gpu);
  WhitenedSpaces spaces{nullptr, {384, 1280, 768}};
  const std::size_t width = std::accumulate(spaces.dims.begin(), spaces.dims.end(), std::size_t{0});
  spaces.rows = gpu->make(kRows, width);
  const Matrix block = random_rows(10'000, width, 1);
  for (std::size_t first = 0; first < kRows; first += block.rows()) {
    gpu->upload(block.view(), spaces.rows->panel().middle_rows(first, block.rows()));
  }
  std::vector<std::uint32_t> ids(support);
  std::iota(ids.begin(), ids.end(), 0U);
  Trainer trainer(collecting, spaces, ids, kAnchors, {}, 0);
  (void)collecting.take_stages();
  trainer.step();
  nlohmann::json stages;
  double sum = 0;
  for (const Stage& stage : collecting.take_stages()) {
    const double us = microseconds_of(*gpu, *spaces.rows, stage);
    if (!stage.beside) sum += us;
    stages.push_back({{"stage", stage.name},
                      {"shapes", stage.shapes},
                      {"us", us},
                      {"beside", stage.beside},
                      {"tflops", stage.flops / us / 1e6}});
  }
  return {{"precision", to_string(precision)}, {"support", support}, {"main_sequence_us", sum}, {"stages", stages}};
}

}  // namespace kedge::bench
