// SPDX-License-Identifier: Apache-2.0
// Heads that a GPU trains, against those of the processor.
#include "compute/operation_cases.h"
#include "gpu/check.h"
#include "gpu/near.h"

#include <kedge/lab/head.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

namespace kedge::test {
namespace {

// Just enough values for a GPU to be used, in odd numbers.
constexpr std::size_t kRows = 1013, kDim = 101;
constexpr std::size_t kClasses = 7, kTargets = 41;
// Adam turns the last bit of a small gradient into a step; the linear head is solved to the end in float64.
constexpr double kMlpTolerance = 1e-3, kLinearTolerance = 1e-5;

/// Rows that overlap with those of other classes, around a mean that is not zero.
struct Labelled {
  Matrix rows = quick_random(kRows, kDim, 1);
  std::vector<std::int64_t> labels;

  Labelled() {
    const Matrix centres = quick_random(kClasses, kDim, 2);
    for (std::size_t r = 0; r < kRows; ++r) {
      const std::size_t own = (r * r + r / 5) % kClasses;
      labels.push_back(static_cast<std::int64_t>(3 * own) - 5);
      for (std::size_t c = 0; c < kDim; ++c) rows.row(r)[c] += 2 + 0.2F * centres.row(own)[c];
    }
  }
};

HeadOptions head_options(const CheckOptions& check, HeadKind kind) {
  HeadOptions options;
  options.kind = kind;
  options.epochs = check.quick ? 1 : 4;
  options.batch = 256;  // the last batch is smaller
  options.hidden = 77;
  options.dropout = 0.5;
  options.seed = 5;
  return options;
}

CheckPromise check_classifier(const CheckOptions& check, const Labelled& data, HeadKind kind) {
  HeadOptions options = head_options(check, kind);
  const auto logits = [&](Device device) {
    options.device = device;
    return train_classifier(data.rows.view(), data.labels, options).logits(data.rows.view());
  };
  const Matrix found = logits(check.device), wanted = logits(Device::cpu);
  return near<float>(std::string(to_string(kind)) + " classifier", found.cells(), wanted.cells(),
                     kind == HeadKind::mlp ? kMlpTolerance : kLinearTolerance);
}

CheckPromise check_decoder(const CheckOptions& check, const Labelled& data) {
  Matrix targets(kRows, kTargets);
  for (std::size_t r = 0; r < kRows; ++r) {
    const auto row = data.rows.row(r);
    for (std::size_t c = 0; c < kTargets; ++c) targets.row(r)[c] = std::sin(row[c] - row[c + 1] + row[kDim - 1 - c]);
  }
  HeadOptions options = head_options(check, HeadKind::mlp);
  const auto decoded = [&](Device device) {
    options.device = device;
    return train_decoder(data.rows.view(), targets.view(), options)(data.rows.view());
  };
  const Matrix found = decoded(check.device), wanted = decoded(Device::cpu);
  return near<float>("mlp decoder", found.cells(), wanted.cells(), kMlpTolerance);
}

}  // namespace

std::vector<CheckPromise> check_heads(const CheckOptions& options) {
  const Labelled data;
  return {check_classifier(options, data, HeadKind::mlp), check_decoder(options, data),
          check_classifier(options, data, HeadKind::linear)};
}

}  // namespace kedge::test
