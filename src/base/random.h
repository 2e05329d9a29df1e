// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

namespace kedge {

/// Random numbers that are the same on every machine: the standard fixes mt19937_64 but not the distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  /// 64 random bits.
  [[nodiscard]] std::uint64_t bits() { return engine_(); }
  /// Uniform in [0, bound); bound > 0.
  [[nodiscard]] std::uint64_t below(std::uint64_t bound);
  /// Uniform in (0, 1].
  [[nodiscard]] double uniform();
  /// Normal with mean 0 and variance 1.
  [[nodiscard]] double normal();
  /// `count` different numbers of [0, total), in random order; count <= total.
  [[nodiscard]] std::vector<std::size_t> sample(std::size_t total, std::size_t count);

 private:
  std::mt19937_64 engine_;
};

}  // namespace kedge
