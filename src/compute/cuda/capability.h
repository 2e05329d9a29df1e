// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/cuda/check.h"

namespace kedge::cuda {

/// Of the GPU that kedge uses: 80 for 8.0.
inline int compute_capability() {
  static const int number = [] {
    int device = 0, major = 0, minor = 0;
    check(cudaGetDevice(&device), "to be asked for");
    check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "to report its major capability");
    check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device), "to report its minor capability");
    return 10 * major + minor;
  }();
  return number;
}

constexpr int kHopper = 90;

}  // namespace kedge::cuda
