// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

// Training of heads on a GPU, implemented in head/cuda. A build without CUDA throws what require_device() throws.
namespace kedge {

/// How an mlp head is learned on a device; see head/mlp.h for what it computes and the order of its parameters.
struct MlpRecipe {
  std::size_t inputs = 0, hidden = 0, outputs = 0;
  bool norms = false;
  std::size_t batch = 0;
  float learning_rate = 0, weight_decay = 0;
  bool dropout = false;
  std::uint32_t drop_below = 0;  ///< hidden values whose 16 random bits are below are dropped
  float kept = 1;                ///< factor of the others
};

/// What an mlp predicts for each row: its class, by cross-entropy, or, if there are no classes, a row of targets, by
/// the mean squared error.
struct MlpTruth {
  std::span<const std::size_t> classes;
  MatrixView<const float> targets;
};

/// An mlp head and the rows it learns from, in the device's memory. Steps are queued; other calls may wait for them.
class MlpTrainer {
 public:
  virtual ~MlpTrainer() = default;
  /// The order of all rows; the steps that follow take a batch of them each, the last one what is left.
  virtual void start_epoch(std::span<const std::size_t> order) = 0;
  /// To be filled before each step: 16 bits for each hidden value of its rows. Empty without dropout.
  [[nodiscard]] virtual std::span<std::uint64_t> random_bits() = 0;
  virtual void step() = 0;
  /// Summed over the steps of the epoch.
  [[nodiscard]] virtual double loss() = 0;
  virtual void read(std::span<float> parameters) = 0;
};
/// Learning starts at `parameters`.
[[nodiscard]] std::unique_ptr<MlpTrainer> make_mlp_trainer(const MlpRecipe& recipe, MatrixView<const float> features,
                                                           const MlpTruth& truth, std::span<const float> parameters,
                                                           Device device);

/// The rows of a logistic regression in the device's memory, centred, in float64.
class LogisticRows {
 public:
  virtual ~LogisticRows() = default;
  /// Returns the mean cross-entropy of the rows and adds its gradient. `weights` is classes x features.
  [[nodiscard]] virtual double cross_entropy(MatrixView<const double> weights, std::span<const double> bias,
                                             MatrixView<double> weights_gradient, std::span<double> bias_gradient) = 0;
  /// The upper triangle.
  virtual void covariance(MatrixView<double> to) = 0;
};
[[nodiscard]] std::unique_ptr<LogisticRows> make_logistic_rows(MatrixView<const float> features,
                                                               std::span<const double> mean,
                                                               std::span<const std::size_t> classes,
                                                               std::size_t class_count, Device device);

}  // namespace kedge
