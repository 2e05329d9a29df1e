// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/kernel_apply.h"

#include "base/checked.h"
#include "compute/cuda/check.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/device_rows.h"
#include "compute/cuda/kernel_maps.h"
#include "compute/cuda/upload.h"

#include <algorithm>
#include <utility>

namespace kedge::cuda {
namespace {

// As large as products must be to keep all of a GPU at work: the largest of those that bench/gpu was run with.
constexpr std::size_t kMostRows = 8192, kMostTile = 10240;

/// Parts of the rows of about the same size, which begin where the fastest products want it.
std::size_t tile_of(std::size_t row_count) {
  constexpr std::size_t kStep = 64;
  const std::size_t tiles = std::max<std::size_t>(1, (row_count + kMostTile - 1) / kMostTile);
  return ((row_count + tiles - 1) / tiles + kStep - 1) / kStep * kStep;
}

/// c = alpha a b + beta c, with b turned or not. Rows are columns to cuBLAS: it sees c^T = b^T a^T.
void multiply(const Lane& lane, Precision precision, ConstPanel a, ConstPanel b, cublasOperation_t turn_b, float alpha,
              float beta, Panel c) {
  check(cublasGemmEx(lane.blas(), turn_b, CUBLAS_OP_N, checked_int(c.cols, "columns"), checked_int(c.rows, "rows"),
                     checked_int(a.cols, "the inner size"), &alpha, b.data, CUDA_R_32F, checked_int(b.stride, "stride"),
                     a.data, CUDA_R_32F, checked_int(a.stride, "stride"), &beta, c.data, CUDA_R_32F,
                     checked_int(c.stride, "stride"), compute_type(precision), CUBLAS_GEMM_DEFAULT),
        "to multiply matrices");
}

}  // namespace

DeviceKernel::DeviceKernel(const KernelFunction& function, Precision asked)
    : input_dim(function.input_dim()),
      output_dim(function.output_dim()),
      row_count(function.rows.rows),
      width(function.width),
      projected(function.projection.rows > 0),
      precision(asked),
      projection(upload(function.projection)),
      rows(upload(function.rows)),
      coefficients(upload(function.coefficients)),
      weight(upload(function.weight)),
      bias(upload(function.bias)),
      mean(upload(function.mean)) {
  check(cudaDeviceSynchronize(), "to copy a map");
}

KernelApply::KernelApply(const DeviceKernel& function, std::size_t most_rows)
    : function_(function),
      tile_(tile_of(function.row_count)),
      rows_(std::clamp<std::size_t>(most_rows, 1, kMostRows)),
      unit_(function.projected ? rows_ * function.input_dim : 0),
      curves_(rows_ * tile_) {}

std::size_t KernelApply::values(const DeviceKernel& function, std::size_t most_rows) {
  return std::min(most_rows, kMostRows) * (tile_of(function.row_count) + (function.projected ? function.input_dim : 0));
}

void KernelApply::apply(const Lane& lane, Panel x, Panel y) {
  for (std::size_t first = 0; first < x.rows; first += rows_) {
    const std::size_t count = std::min(rows_, x.rows - first);
    apply_some(lane, x.middle_rows(first, count), y.middle_rows(first, count));
  }
}

void KernelApply::apply_some(const Lane& lane, Panel x, Panel y) {
  const DeviceKernel& f = function_;
  const std::size_t in = f.input_dim, out = f.output_dim;
  center_rows(lane.stream(), x, f.mean.data());
  Panel unit = x;
  if (f.projected) {
    unit = {unit_.data(), x.rows, in, in};
    multiply(lane, f.precision, x, {f.projection.data(), in, in, in}, CUBLAS_OP_N, 1, 0, unit);
  }
  unit_rows(lane.stream(), unit);
  affine(lane, plans_, unit, {f.weight.data(), out, in, in}, {f.bias.data(), 1, out, out}, f.precision, y);
  const ConstPanel rows{f.rows.data(), f.row_count, in, in}, coefficients{f.coefficients.data(), f.row_count, out, out};
  for (std::size_t first = 0; first < f.row_count; first += tile_) {
    const std::size_t count = std::min(tile_, f.row_count - first);
    const Panel curves{curves_.data(), x.rows, count, count};
    multiply(lane, f.precision, unit, rows.middle_rows(first, count), CUBLAS_OP_T, f.width, 0, curves);
    exp_without_line(lane.stream(), curves.data, x.rows * count);
    multiply(lane, f.precision, curves, coefficients.middle_rows(first, count), CUBLAS_OP_N, 1, 1, y);
  }
}

MakeRowWorker kernel_workers(const KernelFunction& function, Precision precision) {
  require();
  const std::size_t row_count = function.rows.rows, in = function.input_dim(), out = function.output_dim();
  require_free(checked_mul(checked_mul(row_count + in, in + out), sizeof(float)), "a kernel", "take fewer rows");
  const auto shared = std::make_shared<const DeviceKernel>(function, precision);
  return [shared](std::size_t most_rows) {
    require();  // in the worker's own thread
    const std::size_t rows = checked_mul(most_rows, shared->input_dim + shared->output_dim);
    require_free(checked_mul(checked_add(rows, KernelApply::values(*shared, most_rows)), sizeof(float)),
                 "a thread that maps rows", "use fewer threads");
    const auto apply = std::make_shared<KernelApply>(*shared, most_rows);
    return std::make_unique<DeviceRows>(
        shared->input_dim, shared->output_dim, most_rows,
        [shared, apply](const Lane& lane, Panel x, Panel y) { apply->apply(lane, x, y); });
  };
}

}  // namespace kedge::cuda
