// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/kernels.h"
#include "compute/cuda/lane.h"
#include "compute/cuda/product.h"

#include <functional>
#include <map>
#include <span>
#include <variant>
#include <vector>

namespace kedge::cuda {

using Operation =
    std::variant<Fill, Gather, Normalize, NormalizeBackward, Coverage, PullRows, Orthogonality, SymmetricNce, Product>;

/// Runs operations on the lanes of a backend. Launches are what a step's time is lost to, so those that are alike and
/// independent become one.
class Runner {
 public:
  explicit Runner(Precision precision);

  /// Where an operation is queued now.
  [[nodiscard]] const Lane& lane() const { return lanes_[range_.first]; }
  /// The lane that begins and ends everything.
  [[nodiscard]] const Lane& main() const { return lanes_.front(); }
  /// The lane's own, until the next operation on it asks.
  [[nodiscard]] double* scratch(std::size_t count);

  void run(const Operation& operation);
  /// Branches have nothing in common: their first operations are run, then their second ones, and so on.
  void run(std::span<const std::vector<Operation>> branches);
  /// Both at once, each on half of the lanes that this may use.
  void beside(const std::function<void()>& first, const std::function<void()>& second);

 private:
  struct Range {
    std::size_t first, count;
  };

  template <class Kind>
  void run_alike(std::span<const Kind> all);
  void run_alike(std::span<const Product> all);
  void multiply(const Product& product);
  void multiply_all(std::span<const Product> alike);
  [[nodiscard]] const void** addresses(const std::vector<const void*>& of);
  void fork(std::span<const std::size_t> lanes);
  void join(std::span<const std::size_t> lanes);

  cublasComputeType_t compute_;
  std::vector<Lane> lanes_;
  Range range_;  ///< operations are queued on its first; the others are for what runs beside them
  std::vector<std::vector<DeviceArray<double>>> scratch_;  ///< by lane; a recorded graph may use earlier pieces too
  std::map<std::vector<const void*>, DeviceArray<const void*>> addresses_;
};

}  // namespace kedge::cuda
