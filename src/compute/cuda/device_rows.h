// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"
#include "compute/cuda/check.h"
#include "compute/cuda/lane.h"
#include "compute/cuda/memory.h"
#include "compute/row_worker.h"

#include <functional>
#include <utility>

namespace kedge::cuda {

/// Copies rows to the GPU, maps them and copies the result back, on a stream of its own: while it waits, the streams
/// and threads of other workers go on.
class DeviceRows final : public RowWorker {
 public:
  /// Queued on the lane; x may be changed on the way.
  using Map = std::function<void(const Lane& lane, Panel x, Panel y)>;
  DeviceRows(std::size_t input_dim, std::size_t output_dim, std::size_t most_rows, Map map)
      : input_dim_(input_dim),
        output_dim_(output_dim),
        map_(std::move(map)),
        x_(checked_mul(most_rows, input_dim)),
        y_(checked_mul(most_rows, output_dim)),
        input_(x_.size()),
        output_(y_.size()) {}
  // No memory may go while the GPU still copies from it.
  ~DeviceRows() override { (void)cudaStreamSynchronize(lane_.stream()); }
  DeviceRows(const DeviceRows&) = delete;
  DeviceRows& operator=(const DeviceRows&) = delete;

  MatrixView<float> input(std::size_t rows) override { return {input_.data(), rows, input_dim_, input_dim_}; }

  MatrixView<float> apply(std::size_t rows) override {
    copy(x_.data(), input_.data(), rows * input_dim_, cudaMemcpyHostToDevice, "to copy rows");
    map_(lane_, {x_.data(), rows, input_dim_, input_dim_}, {y_.data(), rows, output_dim_, output_dim_});
    copy(output_.data(), y_.data(), rows * output_dim_, cudaMemcpyDeviceToHost, "to copy rows back");
    lane_.wait();
    return {output_.data(), rows, output_dim_, output_dim_};
  }

 private:
  void copy(float* to, const float* from, std::size_t values, cudaMemcpyKind way, const char* what) const {
    check(cudaMemcpyAsync(to, from, values * sizeof(float), way, lane_.stream()), what);
  }

  std::size_t input_dim_, output_dim_;
  Lane lane_;
  Map map_;
  DeviceArray<float> x_, y_;
  PinnedArray<float> input_, output_;
};

}  // namespace kedge::cuda
