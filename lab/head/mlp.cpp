// SPDX-License-Identifier: Apache-2.0
#include "head/mlp.h"

#include "compute/products.h"

#include <cmath>

namespace kedge {
namespace {

constexpr double kNormEpsilon = 1e-5;  // as torch.nn.LayerNorm

/// unit = (x - mean) / length by row.
template <class Rows, class Vector>
void layer_norm(const Rows& x, Rows& unit, Vector& lengths) {
  using T = typename Rows::Scalar;
  unit.resize(x.rows(), x.cols());
  lengths.resize(x.rows());
  for (Eigen::Index r = 0; r < x.rows(); ++r) {
    auto row = unit.row(r);
    row = x.row(r).array() - x.row(r).mean();
    lengths[r] = std::sqrt(row.squaredNorm() / static_cast<T>(x.cols()) + static_cast<T>(kNormEpsilon));
    row /= lengths[r];
  }
}

/// Turns the gradient of unit into that of x, in place.
template <class Rows, class Vector>
void layer_norm_backward(const Rows& unit, const Vector& lengths, Rows& gradient) {
  using T = typename Rows::Scalar;
  const T share = T{1} / static_cast<T>(unit.cols());
  for (Eigen::Index r = 0; r < unit.rows(); ++r) {
    auto row = gradient.row(r);
    const T mean = row.mean();
    const T along = share * row.dot(unit.row(r));
    row = ((row.array() - mean) - along * unit.row(r).array()) / lengths[r];
  }
}

Eigen::Index parameters_of(const MlpShape& shape) {
  const std::size_t norm = shape.norms ? 2 * shape.inputs : 0;
  return static_cast<Eigen::Index>(norm + shape.hidden * (shape.inputs + 1) + shape.outputs * (shape.hidden + 1));
}

}  // namespace

template <class T>
template <class V>
struct Mlp<T>::Parts {
  using Cells = std::conditional_t<std::is_const_v<V>, const Rows, Rows>;
  using Line = std::conditional_t<std::is_const_v<V>, const Eigen::Matrix<T, 1, Eigen::Dynamic>,
                                  Eigen::Matrix<T, 1, Eigen::Dynamic>>;
  Eigen::Map<Line> scale, shift;
  Eigen::Map<Cells> weight1;
  Eigen::Map<Line> bias1;
  Eigen::Map<Cells> weight2;
  Eigen::Map<Line> bias2;
};

template <class T>
template <class V>
typename Mlp<T>::template Parts<V> Mlp<T>::parts(V& vector) const {
  const auto inputs = static_cast<Eigen::Index>(shape_.inputs);
  const auto hidden = static_cast<Eigen::Index>(shape_.hidden);
  const auto outputs = static_cast<Eigen::Index>(shape_.outputs);
  const Eigen::Index norm = shape_.norms ? inputs : 0;
  auto* next = vector.data();
  const auto take = [&next](Eigen::Index count) {
    auto* const first = next;
    next += count;
    return first;
  };
  auto* const scale = take(norm);
  auto* const shift = take(norm);
  auto* const weight1 = take(hidden * inputs);
  auto* const bias1 = take(hidden);
  auto* const weight2 = take(outputs * hidden);
  auto* const bias2 = take(outputs);
  return {{scale, norm},   {shift, norm}, {weight1, hidden, inputs}, {bias1, hidden}, {weight2, outputs, hidden},
          {bias2, outputs}};
}

template <class T>
Mlp<T>::Mlp(const MlpShape& shape, Random& random) : shape_(shape), parameters_(Vector::Zero(parameters_of(shape))) {
  auto p = parts(parameters_);
  p.scale.setOnes();
  const auto draw = [&random](auto values, std::size_t inputs) {
    const double bound = 1 / std::sqrt(static_cast<double>(inputs));
    for (T* value = values.data(); value != values.data() + values.size(); ++value) {
      *value = static_cast<T>(bound * (2 * random.uniform() - 1));
    }
  };
  draw(p.weight1, shape.inputs);
  draw(p.bias1, shape.inputs);
  draw(p.weight2, shape.hidden);
  draw(p.bias2, shape.hidden);
}

template <class T>
typename Mlp<T>::Rows Mlp<T>::forward(const Rows& x, const Rows& keep, Trace& trace) const {
  const auto p = parts(parameters_);
  if (shape_.norms) {
    Vector lengths;
    layer_norm(x, trace.unit, lengths);
    trace.scaled = (trace.unit.array().rowwise() * p.scale.array()).rowwise() + p.shift.array();
  } else {
    trace.scaled = x;
  }
  trace.tanh = product(trace.scaled, p.weight1.transpose());
  trace.tanh = (trace.tanh.rowwise() + p.bias1).array().tanh();
  trace.dropped = trace.tanh;
  if (keep.size() != 0) trace.dropped.array() *= keep.array();
  if (shape_.norms) {
    layer_norm(trace.dropped, trace.hidden_unit, trace.hidden_lengths);
  } else {
    trace.hidden_unit = trace.dropped;
  }
  Rows outputs = product(trace.hidden_unit, p.weight2.transpose());
  outputs.rowwise() += p.bias2;
  return outputs;
}

template <class T>
typename Mlp<T>::Rows Mlp<T>::apply(const Rows& x) const {
  Trace trace;
  return forward(x, {}, trace);
}

template <class T>
void Mlp<T>::backward(const Rows& keep, const Rows& outputs_gradient, const Trace& trace, Vector& gradient) const {
  const auto p = parts(parameters_);
  gradient.resize(parameters_.size());
  auto g = parts(gradient);
  set_product(g.weight2, outputs_gradient.transpose(), trace.hidden_unit);
  g.bias2 = column_sums(outputs_gradient);
  Rows hidden = product(outputs_gradient, p.weight2);
  if (shape_.norms) layer_norm_backward(trace.hidden_unit, trace.hidden_lengths, hidden);
  if (keep.size() != 0) hidden.array() *= keep.array();
  hidden.array() *= 1 - trace.tanh.array().square();
  set_product(g.weight1, hidden.transpose(), trace.scaled);
  g.bias1 = column_sums(hidden);
  if (!shape_.norms) return;
  const Rows scaled = product(hidden, p.weight1);
  g.scale = column_sums(Rows(scaled.cwiseProduct(trace.unit)));
  g.shift = column_sums(scaled);
}

template class Mlp<float>;
template class Mlp<double>;

Adam::Adam(Eigen::Index size, double learning_rate, double weight_decay)
    : learning_rate_(static_cast<float>(learning_rate)),
      weight_decay_(static_cast<float>(weight_decay)),
      first_(Eigen::ArrayXf::Zero(size)),
      second_(Eigen::ArrayXf::Zero(size)) {}

void Adam::step(const Eigen::VectorXf& gradient, Eigen::VectorXf& parameters) {
  constexpr float kBeta1 = 0.9F;
  constexpr float kBeta2 = 0.999F;
  constexpr float kEpsilon = 1e-8F;
  ++steps_;
  const float correction1 = 1 - std::pow(kBeta1, static_cast<float>(steps_));
  const float correction2 = std::sqrt(1 - std::pow(kBeta2, static_cast<float>(steps_)));
  const Eigen::ArrayXf decayed = gradient.array() + weight_decay_ * parameters.array();
  first_ = kBeta1 * first_ + (1 - kBeta1) * decayed;
  second_ = kBeta2 * second_ + (1 - kBeta2) * decayed.square();
  parameters.array() -= (learning_rate_ / correction1) * first_ / (second_.sqrt() / correction2 + kEpsilon);
}

}  // namespace kedge
