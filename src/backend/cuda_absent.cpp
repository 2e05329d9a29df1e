// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda.h"

#include <kedge/error.h>

namespace kedge::cuda {

std::vector<DeviceInfo> devices() {
  return {};
}

void require() {
  throw Error(Code::failed,
              "this build of kedge has no CUDA; install the CUDA toolkit and configure with "
              "-DKEDGE_CUDA=ON, or use --device cpu");
}

}  // namespace kedge::cuda
