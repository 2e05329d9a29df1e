// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/operations.h"

#include <functional>
#include <map>
#include <variant>
#include <vector>

namespace kedge::cuda {

using Operation =
    std::variant<Fill, Gather, Normalize, NormalizeBackward, Coverage, PullRows, Orthogonality, SymmetricNce, Product>;

/// Runs operations on the lanes of a backend. A step's time is lost to launches, so operations that are alike and
/// independent become one: on an H200, a step of PARAM with 5,000 support rows takes 5 % longer if each space's are
/// launched one by one on a lane of its own, 7 % if products alone are, and 22 % with a single lane.
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
  void multiply_all(std::span<const Product> alike);
  [[nodiscard]] const void** addresses(const std::vector<const void*>& of);
  void fork(std::span<const std::size_t> lanes);
  void join(std::span<const std::size_t> lanes);

  Precision precision_;
  std::vector<Lane> lanes_;
  Range range_;  ///< operations are queued on its first lane; the others are for what runs beside it
  std::vector<std::vector<DeviceArray<double>>> scratch_;  ///< by lane; recorded graphs go on using earlier pieces
  std::map<std::vector<const void*>, DeviceArray<const void*>> addresses_;
};

}  // namespace kedge::cuda
