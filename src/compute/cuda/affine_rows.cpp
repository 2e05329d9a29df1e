// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/affine.h"
#include "compute/cuda/check.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/device_rows.h"
#include "compute/cuda/upload.h"

namespace kedge::cuda {
namespace {

/// What all workers share, and only read.
struct Weights {
  DeviceArray<float> weight, bias;
  std::size_t input_dim, output_dim;
  Precision precision;
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
    const auto plans = std::make_shared<AffinePlans>();
    return std::make_unique<DeviceRows>(shared->input_dim, shared->output_dim, most_rows,
                                        [shared, plans](const Lane& lane, Panel x, Panel y) {
                                          const std::size_t in = shared->input_dim, out = shared->output_dim;
                                          affine(lane, *plans, x, {shared->weight.data(), out, in, in},
                                                 {shared->bias.data(), 1, out, out}, shared->precision, y);
                                        });
  };
}

}  // namespace kedge::cuda
