// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace kedge {

/// What is going on, how much of it is done, and what there is to say about it, such as losses.
struct ProgressReport {
  std::string_view step;
  std::size_t done = 0, total = 0;
  std::string_view detail;
};

/// Called now and then during long work. May throw to stop it; calls never overlap.
using Progress = std::function<void(const ProgressReport&)>;

}  // namespace kedge
