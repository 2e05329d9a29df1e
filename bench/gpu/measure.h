// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>
#include <kedge/space.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace kedge::bench {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

template <class Work>
double seconds_of(const Work& work) {
  const auto start = Clock::now();
  work();
  return seconds_since(start);
}

inline double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Values with mean 0 and variance 1, uniform: fast to make, and the time of a product does not depend on them.
[[nodiscard]] Matrix random_rows(std::size_t rows, std::size_t cols, std::uint64_t seed);

/// What the GPU can do at best, a step of PARAM, and transform of data that is there already.
[[nodiscard]] nlohmann::json measure_ceilings();
[[nodiscard]] nlohmann::json measure_steps(std::span<const Precision> precisions);
[[nodiscard]] nlohmann::json measure_resident_transform();
/// What each part of a step takes by itself.
[[nodiscard]] nlohmann::json measure_stages(Precision precision, std::size_t support);

/// The three spaces that make_files makes.
[[nodiscard]] std::vector<Space> open_spaces(const std::string& folder);
/// Makes the files the others read, unless they are there.
void make_files(const std::string& folder);
/// From files to a saved bundle. `start` is when the process began, so that setting the GPU up counts.
[[nodiscard]] nlohmann::json measure_fit(const std::string& folder, const std::string& method, Device device,
                                         Precision precision, Clock::time_point start);
/// The steps of a consensus fit one by one, and the pieces of the slowest.
[[nodiscard]] nlohmann::json measure_consensus(const std::string& folder, Device device);
/// From file to file, beside reading that file and writing such a file alone.
[[nodiscard]] nlohmann::json measure_file_transform(const std::string& folder);

}  // namespace kedge::bench
