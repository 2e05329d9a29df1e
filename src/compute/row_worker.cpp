// SPDX-License-Identifier: Apache-2.0
#include "compute/row_worker.h"

#include "compute/cuda/cuda.h"
#include "compute/device.h"
#include "compute/products.h"

#include <algorithm>
#include <utility>

namespace kedge {
namespace {

using Apply = std::function<void(MatrixView<const float>, MatrixView<float>)>;

class ProcessorWorker final : public RowWorker {
 public:
  ProcessorWorker(const Apply& apply, std::size_t most_rows, std::size_t input_dim, std::size_t output_dim)
      : apply_(apply), x_(most_rows, input_dim), y_(most_rows, output_dim) {}

  MatrixView<float> input(std::size_t rows) override { return x_.view().middle_rows(0, rows); }
  MatrixView<float> apply(std::size_t rows) override {
    const auto result = y_.view().middle_rows(0, rows);
    apply_(input(rows), result);
    return result;
  }

 private:
  const Apply& apply_;
  PageAlignedMatrix x_, y_;
};

}  // namespace

MakeRowWorker function_workers(std::size_t input_dim, std::size_t output_dim, Apply apply) {
  return [=, apply = std::make_shared<const Apply>(std::move(apply))](std::size_t most_rows) {
    return std::make_unique<ProcessorWorker>(*apply, most_rows, input_dim, output_dim);
  };
}

MakeRowWorker affine_workers(MatrixView<const float> weight, std::span<const float> bias, Device device,
                             Precision precision) {
  if (off_processor(device)) return cuda::affine_workers(weight, bias, precision);
  return function_workers(weight.cols, weight.rows,
                          [=](MatrixView<const float> x, MatrixView<float> y) { apply_affine(weight, bias, x, y); });
}

MakeRowWorker kernel_workers(const KernelFunction& function, Device device, Precision precision) {
  if (off_processor(device)) return cuda::kernel_workers(function, precision);
  return function_workers(function.input_dim(), function.output_dim(),
                          [=](MatrixView<const float> x, MatrixView<float> y) { apply_kernel(function, x, y); });
}

RowFlow row_flow(Device device) {
  // Threads that wait for the disk leave their core to the spare ones.
  const unsigned all = threads() + 2;
  // Near a size that stays in a core's cache.
  if (!off_processor(device)) return {std::size_t{1} << 20, all};
  // Large enough to be worth a round trip. Each worker takes memory of the device and of the host that cannot be
  // swapped; 16 read faster than a bus carries.
  return {std::size_t{1} << 22, std::min(all, 16U)};
}

}  // namespace kedge
