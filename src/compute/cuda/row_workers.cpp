// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/operations.h"
#include "compute/row_worker.h"

#include <utility>

namespace kedge::cuda {
namespace {

/// Copies rows to the GPU, maps them and copies the result back, on a lane of its own: other workers go on meanwhile.
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

  MatrixView<float> input(std::size_t rows) override { return {input_.data(), rows, input_dim_, input_dim_}; }

  MatrixView<float> apply(std::size_t rows) override {
    lane_.copy(input_.data(), x_.data(), rows * input_dim_);
    map_(lane_, {x_.data(), rows, input_dim_, input_dim_}, {y_.data(), rows, output_dim_, output_dim_});
    lane_.copy(y_.data(), output_.data(), rows * output_dim_);
    lane_.wait();
    return {output_.data(), rows, output_dim_, output_dim_};
  }

 private:
  std::size_t input_dim_, output_dim_;
  Map map_;
  DeviceArray<float> x_, y_;
  PinnedArray<float> input_, output_;
  Lane lane_;
};

/// `values` are those that a worker needs beside its rows. Called in the worker's own thread.
void require_worker(std::size_t rows, std::size_t input_dim, std::size_t output_dim, std::size_t values) {
  require();
  const std::size_t own = checked_mul(rows, checked_add(input_dim, output_dim));
  require_free(checked_mul(checked_add(own, values), sizeof(float)), "a thread that maps rows", "use fewer threads");
}

/// What all workers share, and only read.
struct Weights {
  Weights(MatrixView<const float> of, std::span<const float> and_bias)
      : input_dim(of.cols), output_dim(of.rows), weight(of.rows * of.cols), bias(of.rows) {
    const Lane lane;
    lane.copy(of, packed(weight, output_dim, input_dim));
    lane.copy(and_bias.data(), bias.data(), output_dim);
    lane.wait();
  }

  std::size_t input_dim, output_dim;
  DeviceArray<float> weight, bias;
};

}  // namespace

MakeRowWorker affine_workers(MatrixView<const float> weight, std::span<const float> bias, Precision precision) {
  require();
  const auto shared = std::make_shared<const Weights>(weight, bias);
  return [shared, precision](std::size_t most_rows) {
    const std::size_t in = shared->input_dim, out = shared->output_dim;
    require_worker(most_rows, in, out, 0);
    return std::make_unique<DeviceRows>(in, out, most_rows, [=](const Lane& lane, Panel x, Panel y) {
      affine(lane, x, {shared->weight.data(), out, in, in}, {shared->bias.data(), 1, out, out}, precision, y);
    });
  };
}

MakeRowWorker kernel_workers(const KernelFunction& function, Precision precision) {
  require();
  const std::size_t in = function.input_dim(), out = function.output_dim();
  require_free(checked_mul(checked_mul(function.rows.rows + in, in + out), sizeof(float)), "a kernel",
               "take fewer rows");
  const auto shared = std::make_shared<const DeviceKernel>(function, precision);
  return [shared, in, out](std::size_t most_rows) {
    require_worker(most_rows, in, out, KernelApply::values(*shared, most_rows));
    const auto apply = std::make_shared<KernelApply>(*shared, most_rows);
    return std::make_unique<DeviceRows>(
        in, out, most_rows, [shared, apply](const Lane& lane, Panel x, Panel y) { apply->apply(lane, x, y); });
  };
}

}  // namespace kedge::cuda
