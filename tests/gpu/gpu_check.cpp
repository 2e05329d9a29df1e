// SPDX-License-Identifier: Apache-2.0
// Is what the GPU computes right? kedge_gpu_check [--quick] [--device cuda|cpu]
// Prints one short table. Exits with 1 if anything is wrong, with 77 and the reason if there is no GPU.
#include "gpu/check.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>

#include <cstdio>
#include <cstring>
#include <exception>

namespace {

using namespace kedge;
using test::CheckOptions;

constexpr int kSkipped = 77;

bool read_options(int argc, char** argv, CheckOptions& options) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      options.quick = true;
    } else if (std::strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
      options.device = parse_device(argv[++i]);
    } else {
      std::fputs("usage: kedge_gpu_check [--quick] [--device cuda|cpu]\n", stderr);
      return false;
    }
  }
  return true;
}

const char* verdict(bool passed) {
  return passed ? "ok" : "WRONG";
}

bool show_operations(const CheckOptions& options) {
  bool all = true;
  fmt::print("{:<26}{:>9}{:>9}{:>9}  {:<26}\n", "worst relative error", "fp32", "tf32", "bf16", "fp32's at");
  for (const auto& row : test::check_operations(options)) {
    fmt::print("{:<26}{:>9.1e}{:>9.1e}{:>9.1e}  {:<26}{}\n", row.name, row.fp32, row.tf32, row.bf16, row.worst,
               verdict(row.passed));
    all = all && row.passed;
  }
  fmt::print("{:<26}{:>9.0e}{:>9.0e}{:>9.0e}  of products; {:.0e} of all else\n\n", "allowed", test::kFp32Tolerance,
             test::kTf32Tolerance, test::kBf16Tolerance, test::kFp32Tolerance);
  return all;
}

bool show_promises(const std::vector<test::CheckPromise>& promises) {
  bool all = true;
  for (const auto& promise : promises) {
    fmt::print("{:<53}{:>26}  {}\n", promise.what, promise.found, verdict(promise.passed));
    all = all && promise.passed;
  }
  return all;
}

int run(const CheckOptions& options) {
  try {
    require_device(options.device);
  } catch (const Error& problem) {
    fmt::print("skipped: {}\n", problem.what());
    return kSkipped;
  }
  bool all = show_operations(options);
  all = show_promises(test::check_sequences(options)) && all;
  all = show_promises(test::check_training(options)) && all;
  all = show_promises(test::check_library(options)) && all;
  all = show_promises(test::check_kernel_maps(options)) && all;
  all = show_promises(test::check_heads(options)) && all;
  fmt::print("{}\n", all ? "all right" : "something is WRONG");
  return all ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    CheckOptions options;
    return read_options(argc, argv, options) ? run(options) : 2;
  } catch (const std::exception& problem) {
    fmt::print(stderr, "the check itself failed: {}\n", problem.what());
    return 1;
  }
}
