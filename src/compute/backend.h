// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace kedge {

/// A float matrix, or a part of one, in a backend's own memory: no MatrixView, as that is in the host's.
template <class T>
struct BasicPanel {
  T* data = nullptr;
  std::size_t rows = 0, cols = 0, stride = 0;
  void* narrow = nullptr;  ///< the same in fewer bits, if the panel is a whole matrix from make_softmax()

  [[nodiscard]] BasicPanel columns(std::size_t first, std::size_t count) const {
    return {data + first, rows, count, stride};
  }
  [[nodiscard]] BasicPanel top_rows(std::size_t count) const { return {data, count, cols, stride}; }
  [[nodiscard]] BasicPanel middle_rows(std::size_t first, std::size_t count) const {
    return {data + first * stride, count, cols, stride};
  }
  operator BasicPanel<const T>() const requires(!std::is_const_v<T>) { return {data, rows, cols, stride, narrow}; }
};
using Panel = BasicPanel<float>;
using ConstPanel = BasicPanel<const float>;

/// Owner of a backend's matrix.
class Tensor {
 public:
  virtual ~Tensor() = default;
  [[nodiscard]] virtual Panel panel() = 0;
};

/// Row numbers in a backend's own memory. If there are several batches of `count` rows, batch number *turn modulo
/// batches is used; `turn` is in that memory too.
struct Ids {
  const std::uint32_t* data = nullptr;
  std::size_t count = 0;
  const std::uint32_t* turn = nullptr;
  std::size_t batches = 1;
};

/// Owner of a backend's whole numbers: row numbers, or a counter.
class Integers {
 public:
  virtual ~Integers() = default;
  [[nodiscard]] virtual std::uint32_t* data() = 0;
};

/// Adam with decoupled weight decay, for one step.
struct AdamStep {
  float learning_rate = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  const std::uint32_t* number = nullptr;  ///< which step it is, from 1, in the backend's memory
};

/// A matrix that is multiplied again and again, in the form that the backend multiplies fastest; here, as it is.
class Packed {
 public:
  explicit Packed(ConstPanel matrix) : matrix_(matrix) {}
  virtual ~Packed() = default;
  [[nodiscard]] ConstPanel matrix() const { return matrix_; }

 private:
  ConstPanel matrix_;
};

/// A fixed sequence of operations on fixed memory, to be run again and again.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void run(std::size_t times) = 0;
};

/// How a loss counts: `share` in its own average, `weight` times that in the total.
struct Weighted {
  float share = 1, weight = 1;
};

/// The operations of a step of gradient descent. They run in the order they are called; only upload() and download()
/// wait. Losses add `share` times their value to `loss`, a 1 x 1 panel, and make the gradient of `weight` times that.
/// Shapes are the caller's duty.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Where it computes and how. Results are the same bits only if this is the same.
  [[nodiscard]] virtual std::string name() const { return "cpu"; }
  /// Zero-filled.
  [[nodiscard]] virtual std::unique_ptr<Tensor> make(std::size_t rows, std::size_t cols) = 0;
  /// For a matrix that only softmax_rows() and step_logits() write, in every form that packed_nn() may need.
  [[nodiscard]] virtual std::unique_ptr<Tensor> make_softmax(std::size_t rows, std::size_t cols) {
    return make(rows, cols);
  }
  [[nodiscard]] virtual std::unique_ptr<Integers> make_integers(std::size_t count) = 0;
  virtual void upload(MatrixView<const float> from, Panel to) = 0;
  virtual void upload(std::span<const std::uint32_t> from, Integers& to) = 0;
  virtual void download(ConstPanel from, MatrixView<float> to) = 0;
  virtual void fill(Panel x, float value) = 0;
  /// to[i] = from[ids[i]].
  virtual void gather_rows(ConstPanel from, Ids ids, Panel to) = 0;

  virtual void gemm_nn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) = 0;  ///< c = alpha a b + beta c
  virtual void gemm_nt(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) = 0;  ///< c = alpha a b^T + beta c
  virtual void gemm_tn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) = 0;  ///< c = alpha a^T b + beta c
  virtual void gram(ConstPanel a, Panel c) = 0;                                            ///< c = a a^T, all of it
  /// y = x w^T + b, with b a row; if `exact`, in full float32 whatever the precision.
  virtual void affine(ConstPanel x, ConstPanel w, ConstPanel b, bool exact, Panel y) = 0;

  /// The matrix must outlive it.
  [[nodiscard]] virtual std::unique_ptr<Packed> pack(ConstPanel matrix) { return std::make_unique<Packed>(matrix); }
  /// c = a b and c = a b^T, for a b that was packed.
  virtual void packed_nn(ConstPanel a, Packed& b, Panel c) { gemm_nn(1, a, b.matrix(), 0, c); }
  virtual void packed_nt(ConstPanel a, Packed& b, Panel c) { gemm_nt(1, a, b.matrix(), 0, c); }

  /// lengths = |x| by row, a column.
  virtual void row_lengths(ConstPanel x, Panel lengths) = 0;
  /// dots = x . y by row, a column.
  virtual void row_dots(ConstPanel x, ConstPanel y, Panel dots) = 0;
  /// unit = x / |x| by row, and the lengths, a column. A zero row stays zero. `again`, if it has data, becomes the same
  /// as unit.
  virtual void normalize_rows(ConstPanel x, Panel unit, Panel lengths, Panel again = {}) = 0;
  /// dx = (dunit - unit (unit . dunit)) / |x| + beta dx. A zero row gets no gradient.
  virtual void normalize_rows_backward(ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta, Panel dx) = 0;

  /// Soft k-means distortion, from the products r = x a^T and the lengths of the rows of x and a (columns):
  /// D = |x|^2 + |a|^2 - 2 r, q = softmax_row(-D / tau), the value is the sum of q D. dr, which may be r, is the
  /// gradient of r. The gradient of a through |a|^2 is pull_r a_r; pull is a column, and is added to.
  virtual void coverage(ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau, Weighted weighted,
                        Panel dr, Panel pull, Panel loss) = 0;
  /// The mean of (|a| - 1)^2 over the rows; da += its gradient plus pull_r a_r.
  virtual void pull_rows(ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted weighted, Panel da,
                         Panel loss) = 0;
  /// The mean squared cosine of different rows, from their m x m cosines: (|gram|_F^2 - m) / (m (m - 1)); 0 for one
  /// row. Its gradient is a product, not made here.
  virtual void orthogonality(ConstPanel gram, float share, Panel loss) = 0;
  /// The mean of both directions of InfoNCE of cosines / tau, n x n: each row's and column's match is on the diagonal.
  /// The cosines are replaced by their gradient, and `turned` by its transpose. Needs tau >= kLeastTau.
  virtual void symmetric_nce(Panel cosines, Panel turned, float tau, Weighted weighted, Panel loss) = 0;

  /// softmax = softmax_row(logits / temperature).
  virtual void softmax_rows(ConstPanel logits, float temperature, Panel softmax) = 0;
  /// One pass by row: the gradient of the logits from that of the softmax, Adam's step, and the new softmax. `inner`, a
  /// column, is softmax . dsoftmax by row.
  virtual void step_logits(ConstPanel dsoftmax, ConstPanel inner, float temperature, const AdamStep& adam, Panel logits,
                           Panel first_moment, Panel second_moment, Panel softmax) = 0;
  /// Adam's step on values that are parameters themselves.
  virtual void step_values(ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                           Panel second_moment) = 0;

  /// Closes the books of a step: row (taken modulo rows) of `log` = losses, losses = 0, and one more step is taken.
  virtual void end_step(Panel losses, Panel log, Integers& taken) = 0;

  /// Calls work(0) ... work(count - 1), which touch no memory in common: equal operations may be done at once.
  virtual void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work);
  /// Calls both, which touch no memory in common, so that they may overlap.
  virtual void beside(const std::function<void()>& first, const std::function<void()>& second);
  /// `work` calls operations only, and nothing that waits; it must outlive the recording.
  [[nodiscard]] virtual std::unique_ptr<Recording> record(std::function<void()> work);
  /// How many steps to run before their losses are read: reading may stop the device from running ahead.
  [[nodiscard]] virtual std::size_t stride() const { return 1; }
  /// Throws Error(Code::failed) if so many floats do not fit: `who` needs them, and the advice says what lowers them.
  virtual void require_memory(std::size_t floats, std::string_view who, std::string_view advice);

  static constexpr float kLeastTau = 0.025F;  ///< below, exp((cosine - 1) / tau) leaves float32
};

[[nodiscard]] std::unique_ptr<Backend> make_cpu_backend();
/// Throws what require_device and require_precision throw.
[[nodiscard]] std::unique_ptr<Backend> make_backend(Device device, Precision precision);

}  // namespace kedge
