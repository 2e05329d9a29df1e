// SPDX-License-Identifier: Apache-2.0
#include "compute/cuda/cuda.h"
#include "compute/cuda/dense.h"

#include <exception>

namespace kedge::cuda {

/// CUDA loads kernels when they are first asked for, and other kernels for matrices of other sizes: so these are large
/// enough to be like those to come, and small enough to take no time themselves.
void warm_up() noexcept {
  constexpr std::size_t kDim = 512, kLeading = 64;
  try {
    require();
    Matrix64 identity(kDim, kDim);
    for (std::size_t i = 0; i < kDim; ++i) identity.row(i)[i] = 1 + static_cast<double>(i) / kDim;
    const ChangeOfBasis basis{Cholesky(identity)};
    const Dense dense;
    const DeviceArray<double> first = dense.upload(identity.view()), second(first.size());
    const Block a{first.data(), kDim, kDim, kDim}, b{second.data(), kDim, kDim, kDim};
    for (const std::size_t count : {kLeading, kDim}) {
      dense.multiply(1, a, Dense::Side::turned, a, Dense::Side::plain, b);
      dense.multiply(1, a, Dense::Side::plain, a, Dense::Side::turned, b);
      dense.multiply(1, a, Dense::Side::plain, a, Dense::Side::plain, b);
      dense.apply_to_columns(basis, b);
      dense.apply_to_rows(basis, b);
      dense.adjoint_to_columns(basis, b);
      mirror(b, 1, dense.stream());
      (void)dense.decompose(b, count);
    }
    dense.wait();
  } catch (const std::exception&) {  // told where it matters
  }
  put_back();
}

}  // namespace kedge::cuda
