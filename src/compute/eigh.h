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

/// Whether matrices of this size are decomposed on a GPU. Small ones are not, whatever the device: LAPACK is done with
/// them before a GPU's many small kernels have started.
[[nodiscard]] bool on_gpu(std::size_t dim, Device device);

/// All eigenpairs of a symmetric matrix, by divide and conquer. Only its upper triangle is read.
[[nodiscard]] Eigenpairs eigh(Matrix64 symmetric, Device device = Device::cpu);
/// The same, and the inverse square root of the matrix, which means nothing unless all values are positive.
[[nodiscard]] Eigenpairs eigh_with_root(Matrix64 symmetric, Matrix64& inverse_root, Device device = Device::cpu);
/// The `count` largest eigenpairs of a positive semidefinite matrix, in ascending order; a few of them take much less
/// time than all.
[[nodiscard]] Eigenpairs eigh_largest(Matrix64 symmetric, std::size_t count);
/// Only the eigenvalues, in ascending order.
[[nodiscard]] std::vector<double> eigenvalues(Matrix64 symmetric);

}  // namespace kedge
