// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/cuda/lane.h"

#include <functional>
#include <memory>
#include <type_traits>

namespace kedge::cuda {

struct DestroyGraph {
  void operator()(cudaGraphExec_t graph) const noexcept { (void)cudaGraphExecDestroy(graph); }
};

/// A sequence of operations as one CUDA graph, so that running it again costs one launch. The first run is a plain one:
/// libraries load their kernels then, which they cannot while a graph is captured.
class GraphRecording final : public Recording {
 public:
  /// `lane` is where the work begins and ends; it must outlive this.
  GraphRecording(const Lane& lane, std::function<void()> work);
  void run(std::size_t times) override;

 private:
  using Graph = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, DestroyGraph>;
  [[nodiscard]] Graph capture(std::size_t times);

  const Lane& lane_;
  std::function<void()> work_;
  bool ran_ = false;
  Graph one_, several_;  ///< between graphs the GPU pauses longer than within one
};

}  // namespace kedge::cuda
