// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>
#include <kedge/moments.h>

#include <string_view>
#include <vector>

namespace kedge {

/// How the shrinkage of a space's covariance is found.
enum class ShrinkageRule {
  fixed,        ///< a given number
  ledoit_wolf,  ///< the number that is best for the rows at hand, as sklearn.covariance.LedoitWolf chooses it
  oas,          ///< the same for normally distributed rows, as sklearn.covariance.OAS chooses it
};

[[nodiscard]] std::string_view to_string(ShrinkageRule rule);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] ShrinkageRule parse_shrinkage_rule(std::string_view name);

/// The shrinkage a rule chooses for the moments of one space, 0 to 1. Not for `fixed`.
/// Throws Error(Code::bad_argument) for Ledoit-Wolf if its sums are not known.
[[nodiscard]] double choose_shrinkage(ShrinkageRule rule, const Moments& moments);

struct WhiteningOptions {
  double shrinkage = 0.15;  ///< how far the covariance is pulled towards a multiple of the identity, 0 to 1
  double epsilon = 5e-8;    ///< added to its diagonal
};

/// Mean mu and L = Sigma_lambda^(-1/2) of one space: (x - mu) L has a covariance near the identity.
struct Whitening {
  std::vector<double> mean;
  Matrix64 covariance;         ///< shrunk
  Matrix64 whitener;           ///< L, symmetric
  std::vector<double> values;  ///< eigenvalues of the shrunk covariance, ascending
  Matrix64 vectors;            ///< row i belongs to values[i]
};

/// Sigma_lambda, the shrunk covariance of one space. Throws Error(Code::bad_argument) for options out of range.
[[nodiscard]] Matrix64 shrunk_covariance(const Moments& moments, const WhiteningOptions& options);

/// Throws Error(Code::bad_argument) for options out of range, and for a singular covariance, which needs one above 0.
[[nodiscard]] Whitening make_whitening(const Moments& moments, const WhiteningOptions& options,
                                       Device device = Device::cpu);

/// (rows - mu) L, in place.
void whiten(const Whitening& whitening, MatrixView<double> rows);

}  // namespace kedge
