// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>
#include <kedge/names.h>
#include <kedge/progress.h>
#include <kedge/space.h>

#include <span>
#include <string_view>
#include <vector>

namespace kedge {

/// Mean and covariance of a set of rows, in float64.
struct Moments {
  std::size_t rows = 0;
  std::vector<double> mean;
  Matrix64 covariance;  ///< divided by rows
};

/// Adds up rows; sums of parts can be merged, so rows may be shared out and brought together in any grouping.
class MomentSums {
 public:
  explicit MomentSums(std::size_t dim);
  /// Overwrites `block`.
  void add(MatrixView<double> block);
  void merge(const MomentSums& other);
  /// Throws Error(Code::bad_argument) if nothing was added.
  [[nodiscard]] Moments moments() &&;

 private:
  void shift(std::span<const double> mean, std::size_t rows);

  std::size_t rows_ = 0;
  std::vector<double> mean_;
  Matrix64 scatter_;  ///< lower triangle of the sum of centred products
};

/// Reads a space once, block by block. Throws Error(Code::bad_file) if all its rows are the same.
[[nodiscard]] Moments compute_moments(const Space& space, const Progress& progress = {}, Device device = Device::cpu);

/// Of parallel spaces side by side, so that the covariance also holds what they have in common: D x D for D values in
/// all. Reads each space once. Throws what compute_moments throws.
[[nodiscard]] Moments compute_joint_moments(std::span<const Space> spaces, const Progress& progress = {},
                                            Device device = Device::cpu);
/// The part of joint moments that belongs to the space whose columns start at `first`.
[[nodiscard]] Moments moments_of(const Moments& joint, std::size_t first, std::size_t dim);

/// How the shrinkage of a space's covariance is found.
enum class ShrinkageRule {
  fixed,        ///< a given number
  ledoit_wolf,  ///< the number that is best for the rows at hand, as sklearn.covariance.LedoitWolf chooses it
  oas,          ///< the same for normally distributed rows, as sklearn.covariance.OAS chooses it
};

template <>
inline constexpr Names<3> kNamesOf<ShrinkageRule>{"shrinkage rule", {"fixed", "ledoit-wolf", "oas"}};
inline constexpr NameParser<ShrinkageRule> parse_shrinkage_rule;
inline constexpr NameList<ShrinkageRule> shrinkage_rule_names;

/// The shrinkage a rule chooses for a space, 0 to 1. Ledoit-Wolf reads the rows once more. Not for `fixed`.
[[nodiscard]] double choose_shrinkage(ShrinkageRule rule, const Space& space, const Moments& moments);

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

/// Sigma_lambda, the covariance that is whitened. Throws Error(Code::bad_argument) for options out of range.
[[nodiscard]] Matrix64 shrunk_covariance(const Moments& moments, const WhiteningOptions& options);

/// Throws Error(Code::bad_argument) for options out of range, and where the covariance is singular because both are 0.
[[nodiscard]] Whitening make_whitening(const Moments& moments, const WhiteningOptions& options,
                                       Device device = Device::cpu);

/// (rows - mu) L, in place.
void whiten(const Whitening& whitening, MatrixView<double> rows);

}  // namespace kedge
