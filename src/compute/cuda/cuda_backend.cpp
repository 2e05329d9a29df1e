// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/runner.h"

#include <fmt/format.h>

#include <utility>

namespace kedge::cuda {
namespace {

// Steps that are queued before their losses are read: enough to keep the GPU busy, few enough for a progress bar.
constexpr std::size_t kStride = 64;
constexpr std::size_t kAligned = 4;  // floats: rows that start on 16 bytes are read four values at a time

class DeviceTensor final : public Tensor {
 public:
  DeviceTensor(std::size_t rows, std::size_t cols, bool narrow_too = false)
      : rows_(rows),
        cols_(cols),
        stride_(cols < kAligned ? cols : (cols + kAligned - 1) / kAligned * kAligned),
        cells_(checked_mul(rows, stride_)) {
    if (narrow_too) narrow_ = DeviceArray<__nv_bfloat16>(checked_mul(rows, narrow_stride(cols)));
  }
  Panel panel() override { return {cells_.data(), rows_, cols_, stride_, narrow_.data()}; }
  [[nodiscard]] std::size_t size() const { return cells_.size(); }

 private:
  std::size_t rows_, cols_, stride_;
  DeviceArray<float> cells_;
  DeviceArray<__nv_bfloat16> narrow_;
};

class DeviceIntegers final : public Integers {
 public:
  explicit DeviceIntegers(std::size_t count) : cells_(count) {}
  std::uint32_t* data() override { return cells_.data(); }

 private:
  DeviceArray<std::uint32_t> cells_;
};

/// A matrix in bfloat16: half the bytes to read, and the GPU multiplies it twice as fast.
class NarrowMatrix final : public Packed {
 public:
  NarrowMatrix(cudaStream_t stream, ConstPanel matrix)
      : Packed(matrix), stride_(narrow_stride(matrix.cols)), cells_(checked_mul(matrix.rows, stride_)) {
    narrow(stream, matrix, cells_.data(), stride_);
  }
  [[nodiscard]] const __nv_bfloat16* data() const { return cells_.data(); }
  [[nodiscard]] std::size_t stride() const { return stride_; }

 private:
  std::size_t stride_;
  DeviceArray<__nv_bfloat16> cells_;
};

/// A matrix and its transpose: tensor cores read tf32 along the inner size only, and cuBLAS is slow to transpose for
/// them. A step of PARAM with 50,000 support rows takes 18 % longer without.
class TurnedMatrix final : public Packed {
 public:
  TurnedMatrix(cudaStream_t stream, ConstPanel matrix) : Packed(matrix), turned_(matrix.cols, matrix.rows) {
    turn(stream, matrix, turned_.panel());
  }
  [[nodiscard]] ConstPanel turned() { return turned_.panel(); }

 private:
  DeviceTensor turned_;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(Precision precision) : precision_(precision), runner_(precision) {}

  std::string name() const override { return fmt::format("{}, {}", devices().front().name, to_string(precision_)); }
  std::unique_ptr<Tensor> make(std::size_t rows, std::size_t cols) override { return make(rows, cols, false); }
  /// In bfloat16 too: converting it for every product makes a step of PARAM with 50,000 support rows 3 % longer.
  std::unique_ptr<Tensor> make_softmax(std::size_t rows, std::size_t cols) override {
    return make(rows, cols, precision_ == Precision::bf16);
  }
  std::unique_ptr<Integers> make_integers(std::size_t count) override {
    auto integers = std::make_unique<DeviceIntegers>(count);
    lane().clear(integers->data(), count);
    return integers;
  }
  void upload(MatrixView<const float> from, Panel to) override { copy(from, {to.data, to.rows, to.cols, to.stride}); }
  void upload(std::span<const std::uint32_t> from, Integers& to) override {
    lane().copy(from.data(), to.data(), from.size());
    lane().wait();
  }
  void download(ConstPanel from, MatrixView<float> to) override {
    copy({from.data, from.rows, from.cols, from.stride}, to);
  }
  void fill(Panel x, float value) override { queue(Fill{x, value}); }
  void gather_rows(ConstPanel from, Ids ids, Panel to) override { queue(Gather{from, ids, to}); }

  void gemm_nn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    queue(Product{CUBLAS_OP_N, CUBLAS_OP_N, a.cols, alpha, a, b, beta, c});
  }
  void gemm_nt(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    queue(Product{CUBLAS_OP_N, CUBLAS_OP_T, a.cols, alpha, a, b, beta, c});
  }
  void gemm_tn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    queue(Product{CUBLAS_OP_T, CUBLAS_OP_N, a.rows, alpha, a, b, beta, c});
  }
  void gram(ConstPanel a, Panel c) override { gemm_nt(1, a, a, 0, c); }
  void affine(ConstPanel x, ConstPanel w, ConstPanel b, bool exact, Panel y) override {
    cuda::affine(lane(), x, w, b, exact ? Precision::fp32 : precision_, y);
  }
  std::unique_ptr<Packed> pack(ConstPanel matrix) override {
    if (precision_ == Precision::fp32) return Backend::pack(matrix);
    if (precision_ == Precision::tf32) return std::make_unique<TurnedMatrix>(stream(), matrix);
    return std::make_unique<NarrowMatrix>(stream(), matrix);
  }
  void packed_nn(ConstPanel a, Packed& b, Panel c) override {
    if (auto* both = dynamic_cast<TurnedMatrix*>(&b)) return gemm_nt(1, a, both->turned(), 0, c);
    if (const auto* narrowed = dynamic_cast<const NarrowMatrix*>(&b)) return multiply(CUBLAS_OP_N, a, *narrowed, c);
    Backend::packed_nn(a, b, c);
  }
  void packed_nt(ConstPanel a, Packed& b, Panel c) override {
    if (const auto* narrowed = dynamic_cast<const NarrowMatrix*>(&b)) return multiply(CUBLAS_OP_T, a, *narrowed, c);
    Backend::packed_nt(a, b, c);
  }

  void row_lengths(ConstPanel x, Panel lengths) override { cuda::row_lengths(stream(), x, lengths); }
  void row_dots(ConstPanel x, ConstPanel y, Panel dots) override { cuda::row_dots(stream(), x, y, dots); }
  void normalize_rows(ConstPanel x, Panel unit, Panel lengths, Panel again) override {
    queue(Normalize{x, unit, lengths, again});
  }
  void normalize_rows_backward(ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta, Panel dx) override {
    queue(NormalizeBackward{unit, lengths, dunit, beta, dx});
  }
  void coverage(ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau, Weighted weighted, Panel dr,
                Panel pull, Panel loss) override {
    queue(Coverage{r, x_lengths, a_lengths, tau, weighted, dr, pull, loss});
  }
  void pull_rows(ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted weighted, Panel da, Panel loss) override {
    queue(PullRows{a, lengths, pull, weighted, da, loss});
  }
  void orthogonality(ConstPanel gram, float share, Panel loss) override { queue(Orthogonality{gram, share, loss}); }
  void symmetric_nce(Panel cosines, Panel turned, float tau, Weighted weighted, Panel loss) override {
    queue(SymmetricNce{cosines, turned, tau, weighted, loss});
  }
  void softmax_rows(ConstPanel logits, float temperature, Panel softmax) override {
    const cudaStream_t own = stream();
    cuda::softmax_rows(own, logits, temperature, softmax, runner_.scratch(softmax_scratch(logits)));
  }
  void step_logits(ConstPanel dsoftmax, ConstPanel inner, float temperature, const AdamStep& adam, Panel logits,
                   Panel first_moment, Panel second_moment, Panel softmax) override {
    const cudaStream_t own = stream();
    cuda::step_logits(own, dsoftmax, inner, temperature, adam, logits, first_moment, second_moment, softmax,
                      runner_.scratch(softmax_scratch(logits)));
  }
  void step_values(ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                   Panel second_moment) override {
    cuda::step_values(stream(), dvalues, adam, values, first_moment, second_moment);
  }
  void end_step(Panel losses, Panel log, Integers& taken) override {
    cuda::end_step(stream(), losses, log, taken.data());
  }

  void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) override;
  void beside(const std::function<void()>& first, const std::function<void()>& second) override;
  std::unique_ptr<Recording> record(std::function<void()> work) override {
    return record_graph(runner_.main(), std::move(work));
  }
  std::size_t stride() const override { return kStride; }
  void require_memory(std::size_t floats, std::string_view who, std::string_view advice) override;

 private:
  /// For an operation that is not collected; what its branch has collected so far is run first.
  [[nodiscard]] const Lane& lane() {
    if (!branches_.empty()) {
      for (const Operation& operation : std::exchange(branches_.back(), {})) runner_.run(operation);
    }
    return runner_.lane();
  }
  [[nodiscard]] cudaStream_t stream() { return lane().stream(); }
  void queue(const Operation& operation) {
    if (branches_.empty()) return runner_.run(operation);
    branches_.back().push_back(operation);
  }

  std::unique_ptr<Tensor> make(std::size_t rows, std::size_t cols, bool narrow_too) {
    auto tensor = std::make_unique<DeviceTensor>(rows, cols, narrow_too);
    lane().clear(tensor->panel().data, tensor->size());
    return tensor;
  }
  void copy(MatrixView<const float> from, MatrixView<float> to) {
    lane().copy(from, to);
    lane().wait();
  }
  void multiply(cublasOperation_t turn_b, ConstPanel a, const NarrowMatrix& b, Panel c) {
    const std::size_t stride = narrow_stride(a.cols);
    const Lane& own = lane();
    const auto* left = static_cast<const __nv_bfloat16*>(a.narrow);
    if (left == nullptr) {
      auto* made = reinterpret_cast<__nv_bfloat16*>(runner_.scratch((a.rows * stride + 3) / 4));
      narrow(own.stream(), a, made, stride);
      left = made;
    }
    const float one = 1, zero = 0;
    check(cublasGemmEx(own.blas(), turn_b, CUBLAS_OP_N, checked_int(c.cols, "columns"), checked_int(c.rows, "rows"),
                       checked_int(a.cols, "the inner size"), &one, b.data(), CUDA_R_16BF,
                       checked_int(b.stride(), "stride"), left, CUDA_R_16BF, checked_int(stride, "stride"), &zero,
                       c.data, CUDA_R_32F, checked_int(c.stride, "stride"), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "to multiply matrices");
  }

  Precision precision_;
  Runner runner_;
  std::vector<std::vector<Operation>> branches_;  ///< of side_by_side, while they are collected
};

void CudaBackend::side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  const bool within = !branches_.empty();  // stays part of the branch it is called in
  try {
    for (std::size_t i = 0; i < count; ++i) {
      if (!within) branches_.emplace_back();
      work(i);
    }
  } catch (...) {
    branches_.clear();
    throw;
  }
  if (!within) runner_.run(std::exchange(branches_, {}));
}

void CudaBackend::beside(const std::function<void()>& first, const std::function<void()>& second) {
  if (branches_.empty()) return runner_.beside(first, second);
  first();
  second();
}

void CudaBackend::require_memory(std::size_t floats, std::string_view who, std::string_view advice) {
  require_free(checked_mul(floats, sizeof(float)), who, advice);
}

}  // namespace

std::unique_ptr<Backend> make_backend(Precision precision) {
  require();
  return std::make_unique<CudaBackend>(precision);
}

}  // namespace kedge::cuda
