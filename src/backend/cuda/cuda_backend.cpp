// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/affine.h"
#include "backend/cuda/cuda.h"
#include "backend/cuda/graph.h"
#include "backend/cuda/kernels.h"
#include "backend/cuda/lane.h"
#include "base/checked.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace kedge::cuda {
namespace {

// Enough for the spaces and pairs of spaces that most people compare; more share lanes.
constexpr std::size_t kLanes = 8;
// Steps queued before their losses are read: long enough to keep the GPU busy, short enough for a progress bar.
constexpr std::size_t kStride = 64;
constexpr std::size_t kAligned = 4;  // floats: rows that start on 16 bytes are read four values at a time

class DeviceTensor final : public Tensor {
 public:
  DeviceTensor(std::size_t rows, std::size_t cols)
      : rows_(rows),
        cols_(cols),
        stride_(cols < kAligned ? cols : (cols + kAligned - 1) / kAligned * kAligned),
        cells_(rows * stride_) {}
  Panel panel() override { return {cells_.data(), rows_, cols_, stride_}; }
  [[nodiscard]] std::size_t bytes() const { return cells_.size() * sizeof(float); }

 private:
  std::size_t rows_, cols_, stride_;
  DeviceArray<float> cells_;
};

class DeviceIntegers final : public Integers {
 public:
  explicit DeviceIntegers(std::size_t count) : cells_(count) {}
  std::uint32_t* data() override { return cells_.data(); }
  [[nodiscard]] std::size_t bytes() const { return cells_.size() * sizeof(std::uint32_t); }

 private:
  DeviceArray<std::uint32_t> cells_;
};

/// A matrix in bfloat16: half the bytes to read, and the GPU multiplies it twice as fast.
class NarrowMatrix final : public Packed {
 public:
  NarrowMatrix(cudaStream_t stream, ConstPanel matrix)
      : Packed(matrix), stride_(narrow_stride(matrix.cols)), cells_(matrix.rows * stride_) {
    narrow(stream, matrix, cells_.data(), stride_);
  }
  [[nodiscard]] const __nv_bfloat16* data() const { return cells_.data(); }
  [[nodiscard]] std::size_t stride() const { return stride_; }
  /// Rows start on 16 bytes.
  static std::size_t narrow_stride(std::size_t cols) { return (cols + 7) / 8 * 8; }

 private:
  std::size_t stride_;
  DeviceArray<__nv_bfloat16> cells_;
};

/// Memory for the sums an operation makes on its way. Earlier pieces are kept, because a recorded graph may use them.
class Scratch {
 public:
  double* of(std::size_t count) {
    if (pieces_.empty() || pieces_.back().size() < count) pieces_.emplace_back(count);
    return pieces_.back().data();
  }

 private:
  std::vector<DeviceArray<double>> pieces_;
};

struct LaneRange {
  std::size_t first, count;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(Precision precision)
      : precision_(precision), compute_(compute_type(precision)), lanes_(kLanes), scratch_(kLanes) {}

  std::string name() const override { return fmt::format("cuda {}", to_string(precision_)); }
  std::unique_ptr<Tensor> make(std::size_t rows, std::size_t cols) override {
    auto tensor = std::make_unique<DeviceTensor>(rows, cols);
    check(cudaMemsetAsync(tensor->panel().data, 0, tensor->bytes(), stream()), "to clear memory");
    return tensor;
  }
  std::unique_ptr<Integers> make_integers(std::size_t count) override {
    auto integers = std::make_unique<DeviceIntegers>(count);
    check(cudaMemsetAsync(integers->data(), 0, integers->bytes(), stream()), "to clear memory");
    return integers;
  }
  void upload(MatrixView<const float> from, Panel to) override {
    copy(to.data, to.stride, from.data, from.stride, to, cudaMemcpyHostToDevice);
  }
  void upload(std::span<const std::uint32_t> from, Integers& to) override {
    check(cudaMemcpyAsync(to.data(), from.data(), from.size_bytes(), cudaMemcpyHostToDevice, stream()),
          "to take row numbers");
    lanes_.front().wait();
  }
  void download(ConstPanel from, MatrixView<float> to) override {
    copy(to.data, to.stride, from.data, from.stride, from, cudaMemcpyDeviceToHost);
  }
  void fill(Panel x, float value) override { cuda::fill(stream(), x, value); }
  void gather_rows(ConstPanel from, Ids ids, Panel to) override { cuda::gather_rows(stream(), from, ids, to); }

  // cuBLAS counts by column, where each of our matrices is its own transpose: c = a b is c^T = b^T a^T there.
  void gemm_nn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    gemm(CUBLAS_OP_N, CUBLAS_OP_N, a.cols, alpha, a, b, beta, c);
  }
  void gemm_nt(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    gemm(CUBLAS_OP_N, CUBLAS_OP_T, a.cols, alpha, a, b, beta, c);
  }
  void gemm_tn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    gemm(CUBLAS_OP_T, CUBLAS_OP_N, a.rows, alpha, a, b, beta, c);
  }
  void gram(ConstPanel a, Panel c) override { gemm_nt(1, a, a, 0, c); }
  void affine(ConstPanel x, ConstPanel w, ConstPanel b, bool exact, Panel y) override {
    cuda::affine(lanes_[range_.first], plans_, x, w, b, exact ? Precision::fp32 : precision_, y);
  }
  std::unique_ptr<Packed> pack(ConstPanel matrix) override {
    if (precision_ != Precision::bf16) return Backend::pack(matrix);
    return std::make_unique<NarrowMatrix>(stream(), matrix);
  }
  void packed_nn(ConstPanel a, Packed& b, Panel c) override { packed(CUBLAS_OP_N, a, b, c); }
  void packed_nt(ConstPanel a, Packed& b, Panel c) override { packed(CUBLAS_OP_T, a, b, c); }

  void row_lengths(ConstPanel x, Panel lengths) override { cuda::row_lengths(stream(), x, lengths); }
  void normalize_rows(ConstPanel x, Panel unit, Panel lengths) override {
    cuda::normalize_rows(stream(), x, unit, lengths);
  }
  void normalize_rows_backward(ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta, Panel dx) override {
    cuda::normalize_rows_backward(stream(), unit, lengths, dunit, beta, dx);
  }
  void coverage(ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau, Weighted weighted, Panel dr,
                Panel pull, Panel loss) override {
    cuda::coverage(stream(), r, x_lengths, a_lengths, tau, weighted, dr, pull, scratch(r.rows), loss);
  }
  void pull_anchors(ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted weighted, Panel da,
                    Panel loss) override {
    cuda::pull_anchors(stream(), a, lengths, pull, weighted, da, loss);
  }
  void orthogonality(ConstPanel gram, float share, Panel loss) override {
    cuda::orthogonality(stream(), gram, share, scratch(gram.rows), loss);
  }
  void symmetric_nce(Panel cosines, float tau, Weighted weighted, Panel loss) override {
    cuda::symmetric_nce(stream(), cosines, tau, weighted, scratch(3 * cosines.rows), loss);
  }
  void softmax_rows(ConstPanel logits, float temperature, Panel mixture) override {
    cuda::softmax_rows(stream(), logits, temperature, mixture);
  }
  void step_logits(ConstPanel dmixture, float temperature, const AdamStep& adam, Panel logits, Panel first_moment,
                   Panel second_moment, Panel mixture) override {
    cuda::step_logits(stream(), dmixture, temperature, adam, logits, first_moment, second_moment, mixture);
  }
  void step_values(ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                   Panel second_moment) override {
    cuda::step_values(stream(), dvalues, adam, values, first_moment, second_moment);
  }
  void end_step(Panel losses, Panel log, Integers& taken) override {
    cuda::end_step(stream(), losses, log, taken.data());
  }

  void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) override;
  std::size_t lanes() const override { return kLanes; }
  std::unique_ptr<Recording> record(std::function<void()> work) override {
    return std::make_unique<GraphRecording>(lanes_.front(), std::move(work));
  }
  std::size_t stride() const override { return kStride; }
  void require_memory(std::size_t floats, std::string_view advice) override;

 private:
  [[nodiscard]] cudaStream_t stream() const { return lanes_[range_.first].stream(); }
  [[nodiscard]] double* scratch(std::size_t count) { return scratch_[range_.first].of(count); }

  template <class Shape>
  void copy(float* to, std::size_t to_stride, const float* from, std::size_t from_stride, Shape shape,
            cudaMemcpyKind kind) {
    check(cudaMemcpy2DAsync(to, to_stride * sizeof(float), from, from_stride * sizeof(float),
                            shape.cols * sizeof(float), shape.rows, kind, stream()),
          "to copy a matrix");
    lanes_.front().wait();
  }
  void gemm(cublasOperation_t turn_a, cublasOperation_t turn_b, std::size_t inner, float alpha, ConstPanel a,
            ConstPanel b, float beta, Panel c) {
    check(cublasGemmEx(lanes_[range_.first].blas(), turn_b, turn_a, checked_int(c.cols, "columns"),
                       checked_int(c.rows, "rows"), checked_int(inner, "the inner size"), &alpha, b.data, CUDA_R_32F,
                       checked_int(b.stride, "stride"), a.data, CUDA_R_32F, checked_int(a.stride, "stride"), &beta,
                       c.data, CUDA_R_32F, checked_int(c.stride, "stride"), compute_, CUBLAS_GEMM_DEFAULT),
          "to multiply matrices");
  }
  void packed(cublasOperation_t turn_b, ConstPanel a, Packed& b, Panel c) {
    const auto* narrowed = dynamic_cast<const NarrowMatrix*>(&b);
    if (narrowed == nullptr) return gemm(CUBLAS_OP_N, turn_b, a.cols, 1, a, b.matrix(), 0, c);
    const std::size_t stride = NarrowMatrix::narrow_stride(a.cols);
    auto* left = reinterpret_cast<__nv_bfloat16*>(scratch((a.rows * stride + 3) / 4));
    narrow(stream(), a, left, stride);
    const float one = 1, zero = 0;
    check(cublasGemmEx(lanes_[range_.first].blas(), turn_b, CUBLAS_OP_N, checked_int(c.cols, "columns"),
                       checked_int(c.rows, "rows"), checked_int(a.cols, "the inner size"), &one, narrowed->data(),
                       CUDA_R_16BF, checked_int(narrowed->stride(), "stride"), left, CUDA_R_16BF,
                       checked_int(stride, "stride"), &zero, c.data, CUDA_R_32F, checked_int(c.stride, "stride"),
                       CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "to multiply matrices");
  }

  Precision precision_;
  cublasComputeType_t compute_;
  std::vector<Lane> lanes_;  ///< the first is the one that everything else waits for
  std::vector<Scratch> scratch_;
  LaneRange range_{0, kLanes};  ///< operations are queued on its first; the others are for what runs beside them
  AffinePlans plans_;
};

void CudaBackend::side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) {
  const LaneRange own = range_;
  const std::size_t used = std::min(count, own.count);
  const auto share = [&](std::size_t i) {
    const std::size_t first = i * own.count / used;
    return LaneRange{own.first + first, (i + 1) * own.count / used - first};
  };
  const Lane& main = lanes_[own.first];
  check(cudaEventRecord(main.end(), main.stream()), "to mark a place");
  for (std::size_t i = 1; i < used; ++i) {
    check(cudaStreamWaitEvent(lanes_[share(i).first].stream(), main.end()), "to wait for a place");
  }
  try {
    for (std::size_t i = 0; i < count; ++i) {
      range_ = share(i % used);
      work(i);
    }
  } catch (...) {
    range_ = own;
    throw;
  }
  range_ = own;
  for (std::size_t i = 1; i < used; ++i) {
    const Lane& other = lanes_[share(i).first];
    check(cudaEventRecord(other.end(), other.stream()), "to mark a place");
    check(cudaStreamWaitEvent(main.stream(), other.end()), "to wait for a place");
  }
}

void CudaBackend::require_memory(std::size_t floats, std::string_view advice) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "to say how much memory is free");
  const std::size_t bytes = floats * sizeof(float);
  if (bytes <= free) return;
  constexpr double kGib = 1U << 30;
  throw Error(Code::failed,
              fmt::format("{:.2f} GiB of the GPU's memory are needed, but only {:.2f} of {:.2f} GiB are free; {}, or "
                          "use --device cpu",
                          static_cast<double>(bytes) / kGib, static_cast<double>(free) / kGib,
                          static_cast<double>(total) / kGib, advice));
}

}  // namespace

std::unique_ptr<Backend> make_backend(Precision precision) {
  require();
  return std::make_unique<CudaBackend>(precision);
}

}  // namespace kedge::cuda
