// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <vector>

namespace kedge {

/// Eigenvalues in ascending order; row i of `vectors` is the unit eigenvector of values[i].
struct Eigenpairs {
  std::vector<double> values;
  Matrix64 vectors;
};

/// Whether matrices of this size are decomposed on the device, and that is a GPU: of small ones LAPACK is done before
/// its many small kernels have started.
[[nodiscard]] bool on_gpu(std::size_t dim, Device device);

/// All eigenpairs of a symmetric matrix, by divide and conquer. Only its upper triangle is read. Small matrices are
/// left to the processor whatever the device, as it is faster there.
[[nodiscard]] Eigenpairs eigh(Matrix64 symmetric, Device device = Device::cpu);
/// The same, and the inverse square root that they make, which means nothing unless all values are positive.
[[nodiscard]] Eigenpairs eigh_with_root(Matrix64 symmetric, Matrix64& inverse_root, Device device = Device::cpu);
/// The `count` largest eigenpairs of one that is positive semidefinite, still in ascending order; much faster than all
/// of them where they are few.
[[nodiscard]] Eigenpairs eigh_largest(Matrix64 symmetric, std::size_t count);
/// Only the eigenvalues, in ascending order.
[[nodiscard]] std::vector<double> eigenvalues(Matrix64 symmetric);

}  // namespace kedge
