// SPDX-License-Identifier: Apache-2.0
#include "head/lbfgs.h"

#include <cmath>
#include <deque>
#include <utility>
#include <vector>

namespace kedge {
namespace {

constexpr std::size_t kMemory = 10;
constexpr double kSufficient = 1e-4;  // share of the promised decrease that a step must bring
constexpr int kMostHalvings = 40;

/// The last steps and how each changed the gradient.
class Memory {
 public:
  void remember(const SmoothProblem& problem, Eigen::VectorXd step, Eigen::VectorXd change) {
    const double curvature = step.dot(change);
    if (!(curvature > 1e-12 * step.norm() * change.norm())) return;  // rounding: a convex function curves upwards
    Eigen::VectorXd expected = change;
    problem.precondition(expected);
    scale_ = curvature / change.dot(expected);
    if (pairs_.size() == kMemory) pairs_.pop_front();
    pairs_.push_back({std::move(step), std::move(change), 1 / curvature});
  }

  /// The two-loop recursion.
  [[nodiscard]] Eigen::VectorXd direction(const SmoothProblem& problem, const Eigen::VectorXd& gradient) const {
    Eigen::VectorXd d = -gradient;
    std::vector<double> alphas;
    for (auto pair = pairs_.rbegin(); pair != pairs_.rend(); ++pair) {
      alphas.push_back(pair->scale * pair->step.dot(d));
      d -= alphas.back() * pair->change;
    }
    problem.precondition(d);
    d *= scale_;
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      const Pair& pair = pairs_[i];
      d += (alphas[pairs_.size() - 1 - i] - pair.scale * pair.change.dot(d)) * pair.step;
    }
    return d;
  }

 private:
  struct Pair {
    Eigen::VectorXd step, change;
    double scale;
  };
  std::deque<Pair> pairs_;
  double scale_ = 1;  ///< how much larger the last step was than the preconditioner expected
};

}  // namespace

Minimum minimize(const SmoothProblem& problem, Eigen::VectorXd& x, double tolerance, std::size_t most_steps,
                 const std::function<void(std::size_t step)>& each_step) {
  Memory memory;
  Eigen::VectorXd gradient(x.size());
  Eigen::VectorXd next_gradient(x.size());
  Minimum found;
  found.value = problem.value(x, gradient);
  for (; found.steps < most_steps; ++found.steps) {
    found.converged = gradient.lpNorm<Eigen::Infinity>() <= tolerance;
    if (found.converged) break;
    if (each_step) each_step(found.steps);
    Eigen::VectorXd direction = memory.direction(problem, gradient);
    double slope = direction.dot(gradient);
    if (!(slope < 0)) {  // rounding has spoilt the memory
      memory = Memory();
      direction = memory.direction(problem, gradient);
      slope = direction.dot(gradient);
    }
    double length = 1;
    double value = 0;
    int halvings = 0;
    for (; halvings < kMostHalvings; ++halvings, length /= 2) {
      value = problem.value(x + length * direction, next_gradient);
      if (value <= found.value + kSufficient * length * slope) break;
    }
    if (halvings == kMostHalvings) break;  // no step is small enough to be seen in the value
    memory.remember(problem, length * direction, next_gradient - gradient);
    x += length * direction;
    std::swap(gradient, next_gradient);
    found.value = value;
  }
  return found;
}

}  // namespace kedge
