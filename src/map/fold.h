// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"
#include "compute/row_worker.h"

#include <kedge/relative_map.h>

#include <cmath>
#include <numbers>

namespace kedge {

/// A map computed in float64 becomes one of float32. Throws Error(Code::bad_file) if a value leaves its range.
[[nodiscard]] RelativeMap fold(const std::string& space, Similarity similarity, const EigenRows<double>& weight,
                               const Eigen::RowVectorXd& bias, const Eigen::RowVectorXd& mean);

/// Values that left float32 would make a map that cannot be used, or read back: throws Error(Code::bad_file).
void require_finite(const std::string& space, const Matrix& weight, std::span<const float> bias);

/// Rows of y are written before all of x are read: throws Error(Code::bad_argument) if they share memory.
void require_apart(MatrixView<const float> x, MatrixView<const float> y);

/// What a map with a kernel computes, or a translator; it must outlive the function.
template <class Map>
[[nodiscard]] KernelFunction kernel_function(const Map& map) {
  const Kernel& kernel = map.kernel().value();
  return {static_cast<float>(kernel.width),
          kernel.whitener.view(),
          kernel.rows.view(),
          kernel.coefficients.view(),
          map.weight().view(),
          map.bias(),
          map.mean()};
}

/// |x - a| = sqrt(|x|^2 + |a|^2 - 2 x.a), from the three. `direct` gives |x - a|^2 for when that has lost its digits.
template <class Direct>
[[nodiscard]] float distance(float x_squared, float a_squared, float product, const Direct& direct) {
  constexpr float kCancelled = 1e-3F;  // of the sum of squares
  const float scale = x_squared + a_squared;
  const float squared = scale - 2 * product;
  return std::sqrt(squared < kCancelled * scale ? direct() : squared);
}

/// 1 - angle / pi, from the cosine. `direct(sign)` gives |x - sign a|^2 of the two as unit rows, for when the cosine
/// has lost the digits of the angle: they point the same way (sign 1) or opposite ways (-1).
template <class Direct>
[[nodiscard]] float angular(float cosine, const Direct& direct) {
  constexpr float kFlat = 0.99F;
  if (std::abs(cosine) < kFlat) return 1 - std::acos(cosine) / std::numbers::pi_v<float>;
  const double sine = std::sqrt(direct(cosine > 0 ? 1 : -1)) / 2;  // of half the angle
  const double share = 2 * std::asin(sine > 1 ? 1 : sine) / std::numbers::pi;
  return static_cast<float>(cosine > 0 ? 1 - share : share);
}

/// A function of one row, and the workers that apply it to blocks of them.
struct RowFunction {
  std::string space;  ///< whose embeddings it takes
  std::string_view doing;
  std::size_t input_dim = 0, output_dim = 0;
  MakeRowWorker make_worker;  ///< on the device of the stream's options
};

/// Streams a space through it into an `.npy` file, on all threads; memory does not grow with rows.
void stream(const RowFunction& function, const Space& input, const std::string& output_path,
            const StreamOptions& options, const Progress& progress);

}  // namespace kedge
