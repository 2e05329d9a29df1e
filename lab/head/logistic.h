// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/lapack.h"
#include "head/device_heads.h"

#include <kedge/device.h>
#include <kedge/matrix.h>
#include <kedge/progress.h>

#include <Eigen/Core>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace kedge {

/// logits = weight features + bias.
struct LinearHead {
  Matrix64 weight;  ///< outputs x features
  std::vector<double> bias;

  [[nodiscard]] Matrix apply(MatrixView<const float> features) const;
};

/// The loss of multinomial logistic regression, mean over the rows plus l2 / (2 rows) |W|^2, of features around their
/// mean. Parameters: a column of weights for each class, then the biases.
class LogisticLoss {
 public:
  /// `classes` tells the class number of each row. On a GPU, only parameters and gradients leave its memory.
  LogisticLoss(MatrixView<const float> features, std::span<const std::size_t> classes, std::size_t class_count,
               double l2, Device device = Device::cpu);

  [[nodiscard]] Eigen::Index parameters() const;
  [[nodiscard]] double value(const Eigen::VectorXd& parameters, Eigen::VectorXd& gradient) const;
  /// Times the inverse of a bound of the Hessian, after Boehning (1992): half the features' covariance plus l2.
  void precondition(Eigen::VectorXd& v) const;
  [[nodiscard]] LinearHead head(const Eigen::VectorXd& parameters) const;

 private:
  class BlockOfRows;

  /// The value without its penalty; adds to the gradient.
  [[nodiscard]] double cross_entropy(const Eigen::VectorXd& parameters, Eigen::VectorXd& gradient) const;
  [[nodiscard]] double cross_entropy_on_device(const Eigen::VectorXd& parameters, Eigen::VectorXd& gradient) const;

  MatrixView<const float> features_;
  std::span<const std::size_t> classes_;
  Eigen::Index class_count_, dim_;
  double penalty_;
  std::unique_ptr<LogisticRows> on_device_;  ///< none on the processor
  Eigen::RowVectorXd mean_;
  std::optional<Cholesky> bound_;  ///< of the Hessian
};

/// Solved to convergence: the largest value of the gradient is below 1e-6, or 1e-4 where rounding allows no more.
/// Throws Error(Code::failed) otherwise.
[[nodiscard]] LinearHead fit_logistic(MatrixView<const float> features, std::span<const std::size_t> classes,
                                      std::size_t class_count, double l2, const Progress& progress,
                                      Device device = Device::cpu);

/// The same after so few steps that it costs no more than an mlp does; the answers hardly change after them. None where
/// the features leave the solution open.
[[nodiscard]] std::optional<LinearHead> approach_logistic(MatrixView<const float> features,
                                                          std::span<const std::size_t> classes, std::size_t class_count,
                                                          double l2, const Progress& progress, Device device);

}  // namespace kedge
