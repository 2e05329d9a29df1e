// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Eigen/Core>
#include <cstddef>
#include <functional>

namespace kedge {

/// A smooth function to be minimised, and what is known of its curvature.
struct SmoothProblem {
  /// The value at x; fills the gradient.
  std::function<double(const Eigen::VectorXd& x, Eigen::VectorXd& gradient)> value;
  /// Replaces v by an approximation of the inverse Hessian times v; the better it is, the fewer steps are needed.
  std::function<void(Eigen::VectorXd& v)> precondition;
};

struct Minimum {
  double value = 0;
  std::size_t steps = 0;
  bool converged = false;  ///< the largest value of the gradient fell to the tolerance
};

/// Limited-memory BFGS from x, in place. `each_step` may throw to stop.
Minimum minimize(const SmoothProblem& problem, Eigen::VectorXd& x, double tolerance, std::size_t most_steps,
                 const std::function<void(std::size_t step)>& each_step = {});

}  // namespace kedge
