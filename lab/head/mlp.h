// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/eigen.h"
#include "base/random.h"

#include <Eigen/Core>
#include <cstddef>
#include <vector>

namespace kedge {

struct MlpShape {
  std::size_t inputs = 0, hidden = 0, outputs = 0;
  bool norms = true;  ///< LayerNorm with scale and shift before the first layer, LayerNorm without before the second
};

/// [norm,] linear, tanh, dropout, [norm,] linear, with all parameters in one vector. Templated so that its gradient can
/// be checked in float64.
template <class T>
class Mlp {
 public:
  using Rows = EigenRows<T>;
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;

  /// Weights and biases uniform within 1 / sqrt(inputs of the layer), as torch.nn.Linear starts them.
  Mlp(const MlpShape& shape, Random& random);

  [[nodiscard]] Vector& parameters() { return parameters_; }
  [[nodiscard]] Rows apply(const Rows& x) const;

  /// What forward() leaves for backward().
  struct Trace {
    Rows unit, scaled, tanh, dropped, hidden_unit;
    Vector hidden_lengths;
  };
  /// `keep` is the factor of each hidden value: 0, or 1 / (1 - dropout). Empty: no dropout.
  [[nodiscard]] Rows forward(const Rows& x, const Rows& keep, Trace& trace) const;
  /// The gradient by all parameters, from the gradient by the outputs.
  void backward(const Rows& keep, const Rows& outputs_gradient, const Trace& trace, Vector& gradient) const;

 private:
  /// The parts of the vector of parameters or of its gradient.
  template <class V>
  struct Parts;
  template <class V>
  [[nodiscard]] Parts<V> parts(V& vector) const;

  MlpShape shape_;
  Vector parameters_;
};

extern template class Mlp<float>;
extern template class Mlp<double>;

/// Adam on one vector, with weight decay in the gradient.
class Adam {
 public:
  Adam(Eigen::Index size, double learning_rate, double weight_decay);
  void step(const Eigen::VectorXf& gradient, Eigen::VectorXf& parameters);

 private:
  float learning_rate_, weight_decay_;
  Eigen::ArrayXf first_, second_;
  int steps_ = 0;
};

}  // namespace kedge
