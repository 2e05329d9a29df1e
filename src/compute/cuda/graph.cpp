// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/graph.h"

#include <utility>

namespace kedge::cuda {
namespace {

constexpr std::size_t kSeveral = 8;  // runs in a graph: the GPU pauses longer between graphs than within one

}  // namespace

GraphRecording::GraphRecording(const Lane& lane, std::function<void()> work) : lane_(lane), work_(std::move(work)) {}

void GraphRecording::run(std::size_t times) {
  if (times == 0) return;
  if (!ran_) {
    work_();
    ran_ = true;
    --times;
  }
  while (times > 0) {
    const std::size_t next = times >= kSeveral ? kSeveral : 1;
    Graph& graph = next == 1 ? one_ : several_;
    if (!graph) graph = capture(next);
    check(cudaGraphLaunch(graph.get(), lane_.stream()), "to start a graph");
    times -= next;
  }
}

GraphRecording::Graph GraphRecording::capture(std::size_t times) {
  check(cudaStreamBeginCapture(lane_.stream(), cudaStreamCaptureModeThreadLocal), "to start recording");
  cudaGraph_t recorded = nullptr;
  try {
    for (std::size_t i = 0; i < times; ++i) work_();
  } catch (...) {
    (void)cudaStreamEndCapture(lane_.stream(), &recorded);
    if (recorded != nullptr) (void)cudaGraphDestroy(recorded);
    (void)cudaGetLastError();  // a recording that was broken off leaves one, which is no news
    throw;
  }
  check(cudaStreamEndCapture(lane_.stream(), &recorded), "to end recording");
  cudaGraphExec_t graph = nullptr;
  const cudaError_t status = cudaGraphInstantiate(&graph, recorded, 0);
  (void)cudaGraphDestroy(recorded);
  check(status, "to make a graph");
  return Graph(graph);
}

}  // namespace kedge::cuda
