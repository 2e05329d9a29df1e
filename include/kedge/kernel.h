// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <optional>
#include <vector>

namespace kedge {

/// How a kernel map is made; what is not given is chosen by the leave-one-out error, space by space.
struct KernelOptions {
  std::optional<double> width;      ///< g of k(x, s) = exp(g (f(x).f(s) - 1)): the larger, the more local
  std::optional<double> strength;   ///< of the penalty, relative to the number of support rows
  std::optional<double> whitening;  ///< of the rows before they are compared: 0 none, 0.5 half, 1 full

  friend bool operator==(const KernelOptions&, const KernelOptions&) = default;
};

/// The non-linear part of a map, which compares an embedding with every support row; docs/format.md has the formula.
struct Kernel {
  double width = 1;
  Matrix whitener;      ///< dim x dim: f(x) = (x - mean) whitener, scaled to length 1; empty for the identity
  Matrix rows;          ///< support x dim: f of the support rows
  Matrix coefficients;  ///< support x outputs
};

/// How a kernel was chosen, and how well its map does at support rows that are left out one by one.
struct KernelFit {
  double width = 0, strength = 0, whitening = 0;
  std::vector<float> r2;  ///< explained share of the variance of each output, 1 down to -1; 0 for one that is constant
  double mean_r2 = 0;     ///< over the outputs that vary
  double error = 0;       ///< unexplained share of the variance of all outputs together
};

}  // namespace kedge
