// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/graph.h"

#include <utility>

namespace kedge::cuda {

GraphRecording::GraphRecording(const Lane& lane, std::function<void()> work) : lane_(lane), work_(std::move(work)) {}

void GraphRecording::run(std::size_t times) {
  if (times == 0) return;
  if (!ran_) {
    work_();
    ran_ = true;
    --times;
  }
  if (times > 0 && !graph_) capture();
  for (std::size_t i = 0; i < times; ++i) check(cudaGraphLaunch(graph_.get(), lane_.stream()), "to start a graph");
}

void GraphRecording::capture() {
  check(cudaStreamBeginCapture(lane_.stream(), cudaStreamCaptureModeThreadLocal), "to start recording");
  cudaGraph_t recorded = nullptr;
  try {
    work_();
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
  graph_.reset(graph);
}

}  // namespace kedge::cuda
