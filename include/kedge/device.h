// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace kedge {

enum class Device { cpu, cuda };

/// What matrices are multiplied in while learning; sums are float32, and so is everything else.
enum class Precision {
  fp32,
  tf32,  ///< 10 bits of fraction on a GPU: several times as fast; fp32 on a processor
  bf16,  ///< on a GPU only: 7 bits in products with the support, most of the work; tf32 in all others
};

/// A place where kedge can compute.
struct DeviceInfo {
  Device kind = Device::cpu;
  std::string name;
  std::size_t memory_bytes = 0;
};

[[nodiscard]] std::string_view to_string(Device device);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] Device parse_device(std::string_view name);
[[nodiscard]] std::vector<std::string_view> device_names();

[[nodiscard]] std::string_view to_string(Precision precision);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] Precision parse_precision(std::string_view name);
[[nodiscard]] std::vector<std::string_view> precision_names();

/// The processor, then every usable GPU.
[[nodiscard]] std::vector<DeviceInfo> devices();
/// What the variable OPENBLAS_CORETYPE should say for OpenBLAS to use all of this processor; empty if it does.
[[nodiscard]] std::string better_blas_kernels();
/// Returns if work can run there; otherwise throws Error(Code::failed) that says what is missing and how to get it.
void require_device(Device device);
/// Returns if learning has this precision there; otherwise throws Error(Code::bad_argument): bf16 is for GPUs.
void require_precision(Device device, Precision precision);

/// How many threads kedge uses, 1 or more; until set, all cores this process may use, or fewer where the environment
/// (OPENBLAS_NUM_THREADS, OMP_NUM_THREADS) says so. An operation keeps the number it began with.
[[nodiscard]] unsigned threads();
/// For operations that begin afterwards; the numbers of BLAS and OpenMP are the process's again when none is left.
/// Throws Error(Code::bad_argument) for 0 and for more than 1024.
void set_threads(unsigned count);
inline constexpr unsigned kThreadsLimit = 1024;

}  // namespace kedge
