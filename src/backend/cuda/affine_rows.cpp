// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/affine.h"
#include "backend/cuda/check.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/lane.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/upload.h"

namespace kedge::cuda {
namespace {

/// What all workers share, and only read.
struct Weights {
  DeviceArray<float> weight, bias;
  std::size_t input_dim, output_dim;
  Precision precision;
};

/// Copies rows to the GPU, maps them and copies the result back, on a stream of its own: while it waits, the streams
/// and threads of other workers go on.
class Worker final : public RowWorker {
 public:
  Worker(std::shared_ptr<const Weights> weights, std::size_t most_rows)
      : weights_(std::move(weights)),
        x_(checked_mul(most_rows, weights_->input_dim)),
        y_(checked_mul(most_rows, weights_->output_dim)),
        input_(x_.size()),
        output_(y_.size()) {}
  // No memory may go while the GPU still copies from it.
  ~Worker() override { (void)cudaStreamSynchronize(lane_.stream()); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  MatrixView<float> input(std::size_t rows) override {
    return {input_.data(), rows, weights_->input_dim, weights_->input_dim};
  }

  MatrixView<float> apply(std::size_t rows) override {
    const std::size_t in = weights_->input_dim, out = weights_->output_dim;
    check(cudaMemcpyAsync(x_.data(), input_.data(), rows * in * sizeof(float), cudaMemcpyHostToDevice, lane_.stream()),
          "to copy rows");
    affine(lane_, plans_, {x_.data(), rows, in, in}, {weights_->weight.data(), out, in, in},
           {weights_->bias.data(), 1, out, out}, weights_->precision, {y_.data(), rows, out, out});
    check(
        cudaMemcpyAsync(output_.data(), y_.data(), rows * out * sizeof(float), cudaMemcpyDeviceToHost, lane_.stream()),
        "to copy rows back");
    lane_.wait();
    return {output_.data(), rows, out, out};
  }

 private:
  std::shared_ptr<const Weights> weights_;
  Lane lane_;
  AffinePlans plans_;
  DeviceArray<float> x_, y_;
  PinnedArray<float> input_, output_;
};

}  // namespace

MakeRowWorker affine_rows(MatrixView<const float> weight, std::span<const float> bias, Precision precision) {
  require();
  const auto shared =
      std::make_shared<const Weights>(Weights{upload(weight), upload(bias), weight.cols, weight.rows, precision});
  // The workers' streams do not wait for the copies, which may still be under way.
  check(cudaDeviceSynchronize(), "to copy a map");
  return [shared](std::size_t most_rows) {
    require();  // in the worker's own thread
    const std::size_t values = checked_mul(most_rows, shared->input_dim + shared->output_dim);
    require_free(checked_mul(values, sizeof(float)), "a thread that maps rows", "use fewer threads");
    return std::make_unique<Worker>(shared, most_rows);
  };
}

}  // namespace kedge::cuda
