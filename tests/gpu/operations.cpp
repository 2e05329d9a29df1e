// SPDX-License-Identifier: Apache-2.0
#include "compute/devices.h"
#include "compute/operation_cases.h"
#include "compute/reference_backend.h"
#include "gpu/check.h"

#include <kedge/error.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <limits>
#include <optional>

namespace kedge::test {
namespace {

// About half a second of plain loops.
constexpr double kMostPlainWork = 3e8;

/// All sizes an operation is asked at; letters it does not depend on keep the first value.
std::vector<Sizes> sizes_for(const OperationCase& operation, bool quick) {
  const std::string_view letters = operation.sizes;
  const auto values = [&](char letter, std::vector<std::size_t> all) {
    if (letters.find(letter) == std::string_view::npos) all.resize(1);
    return all;
  };
  using Values = std::vector<std::size_t>;
  std::vector<Sizes> result;
  for (const std::size_t n : values('n', quick ? Values{1, 131} : Values{1, 1000, 1024})) {
    for (const std::size_t m : values('m', quick ? Values{1, 300} : Values{1, 299, 300, 513})) {
      for (const std::size_t d : values('d', quick ? Values{7, 129} : Values{7, 384, 1281})) {
        for (const std::size_t k : values('k', quick ? Values{33, 700} : Values{33, 5000}))
          result.push_back({n, m, d, k});
      }
    }
  }
  return result;
}

/// Rows of a mixture that several blocks of a GPU share, and a support so long that its products have other settings.
std::vector<Sizes> long_sizes_for(const OperationCase& operation, bool quick) {
  const std::string_view name = operation.name;
  if (quick) return {};
  if (name == "mixture") return {{1, 3, 7, 24'000}};  // the sum of more products of either sign says little in float32
  if (name == "packed") return {{1, 300, 384, 16'400}};
  if (name != "softmax_rows" && name != "step_logits") return {};
  return {{1, 3, 7, 24'001}, {1, 3, 7, 50'000}, {1, 2, 7, 100'004}};
}

struct Judged {
  std::unique_ptr<Backend> backend;
  double tolerance;
  double CheckRow::*error;
};

void check_one(const OperationCase& operation, const Sizes& sizes, Layout layout, Backend& right,
               const std::vector<Judged>& judged, CheckRow& row) {
  const Outputs wanted = run_case(operation, right, sizes, layout);
  for (const Judged& each : judged) {
    const bool fp32 = each.error == &CheckRow::fp32;
    Difference found;
    try {
      found = largest_difference(run_case(operation, *each.backend, sizes, layout), wanted,
                                 typical_value(operation, sizes));
    } catch (const Error& problem) {
      std::fprintf(stderr, "%s at %s: %s\n", operation.name, describe(sizes, operation.sizes).c_str(), problem.what());
      found.error = std::numeric_limits<double>::infinity();
    }
    if (fp32 && (row.worst.empty() || found.error > row.fp32)) row.worst = describe(sizes, operation.sizes);
    row.*each.error = std::max(row.*each.error, found.error);
    if (found.error < (operation.rounds ? each.tolerance : kFp32Tolerance)) continue;
    row.passed = false;
    std::fprintf(stderr, "%s at %s%s: '%s' is off by %.2g in %s\n", operation.name,
                 describe(sizes, operation.sizes).c_str(), layout.after == 0 ? "" : ", in wider rows",
                 found.buffer.c_str(), found.error,
                 fp32                            ? "fp32"
                 : each.error == &CheckRow::tf32 ? "tf32"
                                                 : "bf16");
  }
}

}  // namespace

std::vector<CheckRow> check_operations(const CheckOptions& options) {
  std::vector<Judged> judged;
  judged.push_back({make_backend(options.device, Precision::fp32), kFp32Tolerance, &CheckRow::fp32});
  judged.push_back({make_backend(options.device, Precision::tf32), kTf32Tolerance, &CheckRow::tf32});
  if (!missing(Place{options.device, Precision::bf16, kBf16Tolerance})) {
    judged.push_back({make_backend(options.device, Precision::bf16), kBf16Tolerance, &CheckRow::bf16});
  }
  const auto plain = make_reference_backend();
  const auto processor = make_cpu_backend();
  std::vector<CheckRow> rows;
  for (const OperationCase& operation : operation_cases()) {
    CheckRow& row = rows.emplace_back();
    row.name = operation.name;
    std::vector<Sizes> all = sizes_for(operation, options.quick);
    std::ranges::copy(long_sizes_for(operation, options.quick), std::back_inserter(all));
    for (const Sizes& sizes : all) {
      Backend& right = work(operation, sizes) <= kMostPlainWork ? *plain : *processor;
      for (const Layout layout : {kPacked, kLoose}) check_one(operation, sizes, layout, right, judged, row);
    }
  }
  return rows;
}

}  // namespace kedge::test
