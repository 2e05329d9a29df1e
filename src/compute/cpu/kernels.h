// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

// What the CPU backend does to one row. Plain loops that the compiler turns into vector instructions, once for each
// kind of processor; the right ones are chosen when the program starts. Eigen's expressions use only what every
// processor of a family has: on one core of a Xeon with AVX-512 they take 3.4 times as long for Adam's step with its
// softmax of 2000 logits, 6 times for the exponentials of 512 cosines and 3 times for a coverage of 300 anchors.
namespace kedge::cpu {

/// out = exp(factor (x - most)), within two units in the last place. No x is above `most`. Results below exp(-87)
/// become exp(-87), which is as good as nothing. NaN stays NaN. out may be x.
void exp_below(std::span<const float> x, float most, float factor, std::span<float> out);
/// row = exp(factor (row - 1)), added to `columns` too. Cosines are at most 1, but for their rounding.
void exp_below_one(std::span<float> row, float factor, std::span<float> columns);
/// u = e^u - 1 - u within eight units in the last place, next to 0 as elsewhere. Values beyond 80 on either side count
/// as 80, where e^u still is a float32. NaN stays NaN.
void exp_without_line(std::span<float> u);

/// out += rows x, for rows as long as x: what BLAS does on one thread, but faster for few rows.
void add_dots(MatrixView<const float> rows, std::span<const float> x, std::span<float> out);
/// out += the sum of the rows, each times its weight.
void add_rows(MatrixView<const float> rows, std::span<const float> weights, std::span<float> out);
/// out += sum of |row - x| for each of the rows, as long as x.
void add_differences(MatrixView<const float> rows, std::span<const float> x, std::span<float> out);

[[nodiscard]] float dot(std::span<const float> x, std::span<const float> y);
[[nodiscard]] float length(std::span<const float> x);
/// unit = x / length; zero for a zero row.
void normalize(std::span<const float> x, float length, std::span<float> unit);
void normalize_backward(std::span<const float> unit, float length, std::span<const float> dunit, float beta,
                        std::span<float> dx);

/// out = softmax(x / temperature).
void softmax(std::span<const float> x, float temperature, std::span<float> out);

/// row = exp((row - 1) / tau), added to `columns` too; returns its sum. Cosines are at most 1.
float exponentials(std::span<float> row, float tau, std::span<float> columns);
/// row *= step (1 / row_sum + inverse_columns).
void scale_exponentials(std::span<float> row, float step, float row_sum, std::span<const float> inverse_columns);

/// One row of Backend::coverage: writes the gradient of the products, adds it to `sums`, returns the sum of q D.
/// `scratch` is as long as the row.
float coverage(std::span<const float> r, float x_length, std::span<const float> a_lengths, float tau, float scale,
               std::span<float> dr, std::span<float> sums, std::span<float> scratch);

/// One row of Backend::step_logits.
void step_logits(std::span<const float> dout, float inner, float temperature, const AdamStep& adam,
                 std::span<float> logits, std::span<float> first, std::span<float> second, std::span<float> out);
/// One row of Backend::step_values.
void step_values(std::span<const float> dvalues, const AdamStep& adam, std::span<float> values, std::span<float> first,
                 std::span<float> second);

}  // namespace kedge::cpu
