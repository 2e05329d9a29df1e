// SPDX-License-Identifier: Apache-2.0
// Learns PARAM on the processor in fp32 and in bf16, and prints the losses of both: precision_losses EPOCHS SUPPORT
// FILE...
#include <fmt/format.h>
#include <kedge/kedge.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

namespace {

std::vector<kedge::Losses> learn(const std::vector<kedge::Space>& spaces, std::size_t epochs, std::size_t support,
                                 kedge::Precision precision) {
  kedge::FitOptions options;
  options.method = kedge::Method::param;
  options.precision = precision;
  options.support = support;
  options.param.epochs = epochs;
  return kedge::fit(spaces, options).history;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 4) {
    fmt::print(stderr, "usage: precision_losses EPOCHS SUPPORT FILE...\n");
    return 2;
  }
  std::vector<kedge::Space> spaces;
  for (int i = 3; i < argc; ++i) spaces.emplace_back(std::to_string(i), kedge::open_rows(argv[i]));
  const std::size_t epochs = std::stoul(argv[1]), support = std::stoul(argv[2]);
  const auto exact = learn(spaces, epochs, support, kedge::Precision::fp32);
  const auto coarse = learn(spaces, epochs, support, kedge::Precision::bf16);
  fmt::print("{:>5}{:>12}{:>12}{:>9}\n", "epoch", "fp32", "bf16", "off by");
  double worst = 0;
  for (std::size_t i = 0; i < epochs; ++i) {
    const double off = std::abs(coarse[i].total / exact[i].total - 1);
    worst = std::max(worst, off);
    if (i < 5 || i + 1 == epochs || (i + 1) % 10 == 0) {
      fmt::print("{:>5}{:>12.5f}{:>12.5f}{:>9.3f}%\n", i + 1, exact[i].total, coarse[i].total, 100 * off);
    }
  }
  const auto part = [&](const char* name, double kedge::Losses::*loss) {
    fmt::print("{:>15}{:>12.5f}{:>12.5f}\n", name, exact.back().*loss, coarse.back().*loss);
  };
  part("symnce", &kedge::Losses::symnce);
  part("coverage", &kedge::Losses::coverage);
  part("orthogonality", &kedge::Losses::orthogonality);
  part("length", &kedge::Losses::length);
  fmt::print("total losses of {} epochs are within {:.3f} %\n", epochs, 100 * worst);
  return worst <= 0.005 ? 0 : 1;
} catch (const kedge::Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
