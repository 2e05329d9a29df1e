// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

// Apart from the other kernels, as these need their arithmetic in the order it is written.
namespace kedge::cpu {

/// out = exp(factor (x - most)), within two units in the last place of the exponential of that float32. No x is above
/// `most`; what would be below exp(-87) stays there, which is as good as nothing. NaN stays NaN. out may be x.
void exp_below(std::span<const float> x, float most, float factor, std::span<float> out);
/// row = exp(factor (row - 1)), added to `columns` too. Cosines are at most 1, but for their rounding.
void exp_below_one(std::span<float> row, float factor, std::span<float> columns);
/// u = e^u - 1 - u, whose digits next to 0 are as good as elsewhere: within eight units in the last place. What is
/// beyond 80 on either side counts as 80, where e^u still is a float32. NaN stays NaN.
void exp_without_line(std::span<float> u);

}  // namespace kedge::cpu
