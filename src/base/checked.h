// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace kedge {

/// a + b; throws Error(Code::failed) if the sum does not fit.
[[nodiscard]] std::size_t checked_add(std::size_t a, std::size_t b);

/// A size as the int that BLAS and LAPACK take; throws Error(Code::failed) naming what was too large.
[[nodiscard]] int checked_int(std::size_t value, std::string_view what);

}  // namespace kedge
