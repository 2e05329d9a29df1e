// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/operations.h"
#include "compute/cuda/runtime.h"
#include "head/cuda/mlp_kernels.h"
#include "head/device_heads.h"

#include <algorithm>
#include <array>
#include <vector>

namespace kedge::cuda {
namespace {

/// Owns rows that lie one after the other.
struct Rows {
  DeviceArray<float> values;
  std::size_t cols = 0;

  Rows() = default;
  Rows(std::size_t rows, std::size_t row_cols) : values(checked_mul(rows, row_cols)), cols(row_cols) {}
  Rows(const Lane& lane, MatrixView<const float> from) : values(lane.copy_of(from)), cols(from.cols) {}
  [[nodiscard]] Panel top(std::size_t rows) const { return {values.data(), rows, cols, cols}; }
};

/// The parts of a vector of parameters or of its gradient, in their order there.
struct Parts {
  Panel scale, shift, weight1, bias1, weight2, bias2;

  Parts(float* values, const MlpRecipe& r) {
    float* next = values;
    const auto take = [&next](std::size_t rows, std::size_t cols) {
      const Panel part{next, rows, cols, cols};
      next += rows * cols;
      return part;
    };
    const std::size_t norm = r.norms ? r.inputs : 0;
    // cppcheck-suppress useInitializationList ; the parts are taken one after the other
    scale = take(1, norm);
    shift = take(1, norm);
    weight1 = take(r.hidden, r.inputs);
    bias1 = take(1, r.hidden);
    weight2 = take(r.outputs, r.hidden);
    bias2 = take(1, r.outputs);
  }
};

/// Random bits on their way to the GPU, while the host draws those of later steps.
struct Slot {
  PinnedArray<std::uint64_t> words;
  Event free;  ///< recorded after the GPU has copied the words
};
constexpr std::size_t kSlots = 8;

class Trainer final : public MlpTrainer {
 public:
  Trainer(const MlpRecipe& recipe, MatrixView<const float> features, const MlpTruth& truth,
          std::span<const float> parameters);
  // No memory may go while the GPU still copies from it.
  ~Trainer() override { (void)cudaStreamSynchronize(lane_.stream()); }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  void start_epoch(std::span<const std::size_t> order) override;
  std::span<std::uint64_t> random_bits() override;
  void step() override;
  double loss() override;
  void read(std::span<float> parameters) override;

 private:
  [[nodiscard]] std::size_t next_rows() const { return std::min(batch_, rows_ - done_); }
  [[nodiscard]] std::size_t words(std::size_t rows) const { return (rows * recipe_.hidden + 3) / 4; }
  [[nodiscard]] MlpDropout dropout() const;
  void work(std::size_t rows);
  void forward(std::size_t rows);
  void backward(std::size_t rows);
  /// c = a b; each factor may be transposed.
  void multiply(cublasOperation_t turn_a, ConstPanel a, cublasOperation_t turn_b, ConstPanel b, Panel c) const;

  MlpRecipe recipe_;
  MlpAdam adam_;
  Lane lane_;
  std::size_t rows_, batch_;
  std::size_t done_ = 0;  ///< rows of this epoch
  Rows features_, targets_;
  DeviceArray<std::uint32_t> classes_, order_;
  DeviceArray<MlpState> state_;
  Ids ids_;  ///< the rows of the step
  DeviceArray<float> parameters_, gradient_, first_moment_, second_moment_;
  Parts p_, g_;
  // Matrices of a batch. Gradients replace their values, except for `scaled_` and `hidden_unit_`.
  Rows unit_, scaled_, scaled_gradient_, hidden_, hidden_unit_, hidden_gradient_, outputs_;
  DeviceArray<float> lengths_;
  DeviceArray<double> losses_;
  DeviceArray<std::uint64_t> bits_;
  std::array<Slot, kSlots> slots_;
  std::size_t slot_ = 0;
  std::vector<std::uint32_t> numbers_;
  std::unique_ptr<Recording> full_batch_;
};

Trainer::Trainer(const MlpRecipe& recipe, MatrixView<const float> features, const MlpTruth& truth,
                 std::span<const float> parameters)
    : recipe_(recipe),
      adam_{recipe.learning_rate, recipe.weight_decay},
      rows_(features.rows),
      batch_(std::min(recipe.batch, features.rows)),
      features_(lane_, features),
      targets_(truth.classes.empty() ? Rows(lane_, truth.targets) : Rows()),
      classes_(truth.classes.size()),
      order_(rows_),
      state_(1),
      ids_{order_.data(), batch_, &state_.data()->taken, (rows_ + batch_ - 1) / batch_},
      parameters_(parameters.size()),
      gradient_(parameters.size()),
      first_moment_(parameters.size()),
      second_moment_(parameters.size()),
      p_(parameters_.data(), recipe),
      g_(gradient_.data(), recipe),
      unit_(recipe.norms ? Rows(batch_, recipe.inputs) : Rows()),
      scaled_(batch_, recipe.inputs),
      scaled_gradient_(recipe.norms ? Rows(batch_, recipe.inputs) : Rows()),
      hidden_(batch_, recipe.hidden),
      hidden_unit_(batch_, recipe.hidden),
      hidden_gradient_(batch_, recipe.hidden),
      outputs_(batch_, recipe.outputs),
      lengths_(batch_),
      losses_(batch_),
      full_batch_(record_graph(lane_, [this] { work(batch_); })) {
  (void)checked_int(rows_, "the rows of a head");
  if (recipe.dropout) {
    bits_ = DeviceArray<std::uint64_t>(words(batch_));
    for (Slot& slot : slots_) slot = {PinnedArray<std::uint64_t>(words(batch_)), make_event()};
  }
  numbers_.assign(truth.classes.begin(), truth.classes.end());
  lane_.copy(numbers_.data(), classes_.data(), numbers_.size());
  lane_.copy(parameters.data(), parameters_.data(), parameters.size());
  lane_.clear(first_moment_.data(), first_moment_.size());
  lane_.clear(second_moment_.data(), second_moment_.size());
  lane_.clear(state_.data(), 1);
  lane_.wait();
}

void Trainer::start_epoch(std::span<const std::size_t> order) {
  lane_.wait();  // for the copy of the last order
  numbers_.assign(order.begin(), order.end());
  lane_.copy(numbers_.data(), order_.data(), numbers_.size());
  lane_.clear(&state_.data()->loss, 1);
  done_ = 0;
}

std::span<std::uint64_t> Trainer::random_bits() {
  if (!recipe_.dropout) return {};
  const Slot& slot = slots_[slot_];
  // An event that was never recorded counts as over.
  check(cudaEventSynchronize(slot.free.get()), "while it trained a head");
  return {slot.words.data(), words(next_rows())};
}

void Trainer::step() {
  const std::size_t rows = next_rows();
  if (recipe_.dropout) {
    const Slot& slot = slots_[slot_];
    lane_.copy(slot.words.data(), bits_.data(), words(rows));
    check(cudaEventRecord(slot.free.get(), lane_.stream()), "to record an event");
    slot_ = (slot_ + 1) % kSlots;
  }
  if (rows == batch_) {
    full_batch_->run(1);
  } else {
    work(rows);
  }
  done_ += rows;
}

double Trainer::loss() {
  double loss = 0;
  lane_.copy(&state_.data()->loss, &loss, 1);
  lane_.wait();
  return loss;
}

void Trainer::read(std::span<float> parameters) {
  lane_.copy(parameters_.data(), parameters.data(), parameters.size());
  lane_.wait();
}

MlpDropout Trainer::dropout() const {
  if (!recipe_.dropout) return {};
  // The host's words lie as their 16-bit parts do, the lowest first: GPU and host are both little-endian.
  return {reinterpret_cast<const std::uint16_t*>(bits_.data()), recipe_.drop_below, recipe_.kept};
}

void Trainer::work(std::size_t rows) {
  forward(rows);
  backward(rows);
  MlpSums sums;
  sums.columns[0] = {hidden_gradient_.top(rows), nullptr, g_.bias1.data};
  sums.columns[1] = {outputs_.top(rows), nullptr, g_.bias2.data};
  if (recipe_.norms) {
    sums.columns[2] = {scaled_gradient_.top(rows), unit_.values.data(), g_.scale.data};
    sums.columns[3] = {scaled_gradient_.top(rows), nullptr, g_.shift.data};
  }
  sums.losses = losses_.data();
  sums.rows = rows;
  sum_step(lane_.stream(), sums, adam_, state_.data());
  step_parameters(lane_.stream(), gradient_.data(), adam_, state_.data(), parameters_.size(), parameters_.data(),
                  first_moment_.data(), second_moment_.data());
}

/// Leaves the gradient of the outputs in their place.
void Trainer::forward(std::size_t rows) {
  const cudaStream_t stream = lane_.stream();
  const Panel features = features_.top(rows_);
  if (recipe_.norms) {
    level_rows(stream, features, ids_, p_.scale.data, p_.shift.data, unit_.top(rows), scaled_.top(rows));
  } else {
    const Gather gather{features, ids_, scaled_.top(rows)};
    run(stream, std::span(&gather, 1));
  }
  multiply(CUBLAS_OP_N, scaled_.top(rows), CUBLAS_OP_T, p_.weight1, hidden_.top(rows));
  activate(stream, p_.bias1.data, dropout(), recipe_.norms, hidden_.top(rows), hidden_unit_.top(rows), lengths_.data());
  multiply(CUBLAS_OP_N, hidden_unit_.top(rows), CUBLAS_OP_T, p_.weight2, outputs_.top(rows));
  if (classes_.size() != 0) {
    cross_entropy(stream, classes_.data(), ids_, p_.bias2.data, outputs_.top(rows), losses_.data());
  } else {
    squared_error(stream, targets_.top(rows_), ids_, p_.bias2.data, outputs_.top(rows), losses_.data());
  }
}

/// All but the sums over rows.
void Trainer::backward(std::size_t rows) {
  multiply(CUBLAS_OP_T, outputs_.top(rows), CUBLAS_OP_N, hidden_unit_.top(rows), g_.weight2);
  multiply(CUBLAS_OP_N, outputs_.top(rows), CUBLAS_OP_N, p_.weight2, hidden_gradient_.top(rows));
  activate_backward(lane_.stream(), hidden_.top(rows), hidden_unit_.top(rows), lengths_.data(), dropout(),
                    recipe_.norms, hidden_gradient_.top(rows));
  multiply(CUBLAS_OP_T, hidden_gradient_.top(rows), CUBLAS_OP_N, scaled_.top(rows), g_.weight1);
  if (recipe_.norms) {
    multiply(CUBLAS_OP_N, hidden_gradient_.top(rows), CUBLAS_OP_N, p_.weight1, scaled_gradient_.top(rows));
  }
}

/// In real float32: heads are small, and this one should match the processor's.
void Trainer::multiply(cublasOperation_t turn_a, ConstPanel a, cublasOperation_t turn_b, ConstPanel b, Panel c) const {
  const std::size_t inner = turn_a == CUBLAS_OP_N ? a.cols : a.rows;
  cuda::multiply(lane_, {turn_a, turn_b, inner, 1, a, b, 0, c}, Precision::fp32);
}

}  // namespace
}  // namespace kedge::cuda

namespace kedge {

std::unique_ptr<MlpTrainer> make_mlp_trainer(const MlpRecipe& recipe, MatrixView<const float> features,
                                             const MlpTruth& truth, std::span<const float> parameters, Device) {
  cuda::require();
  const std::size_t held =
      checked_mul(features.rows, features.cols) + checked_mul(truth.targets.rows, truth.targets.cols);
  cuda::require_free(checked_mul(held, sizeof(float)), "training a head", "train it on fewer rows");
  return std::make_unique<cuda::Trainer>(recipe, features, truth, parameters);
}

}  // namespace kedge
