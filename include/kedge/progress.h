// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace kedge {

/// Called now and then during long work: what is going on, how much is done, how much there is.
/// May throw to stop the work; calls never overlap.
using Progress = std::function<void(std::string_view step, std::size_t done, std::size_t total)>;

}  // namespace kedge
