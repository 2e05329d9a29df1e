// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "compute/cuda/cuda.h"
#include "compute/cuda/runtime.h"
#include "head/cuda/logistic_kernels.h"
#include "head/device_heads.h"

#include <algorithm>
#include <functional>
#include <vector>

namespace kedge::cuda {
namespace {

constexpr std::size_t kBlockRows = 8192;  // copied as float32 before they are centred

/// A one follows the features of every row, so that the bias is a weight like the others; then zeros up to an even
/// number of values, because values are read in pairs.
class Logistic final : public LogisticRows {
 public:
  Logistic(MatrixView<const float> features, std::span<const double> mean, std::span<const std::size_t> classes,
           std::size_t class_count);

  double cross_entropy(MatrixView<const double> weights, std::span<const double> bias,
                       MatrixView<double> weights_gradient, std::span<double> bias_gradient) override;
  void covariance(MatrixView<double> to) override;

 private:
  [[nodiscard]] int rows() const { return checked_int(rows_, "the rows of a head"); }
  [[nodiscard]] int width() const { return checked_int(width_, "the features of a head"); }
  [[nodiscard]] int class_count() const { return checked_int(class_count_, "the classes of a head"); }
  void upload(MatrixView<const float> features, std::span<const double> mean) const;

  std::size_t rows_, dim_, width_, class_count_;
  DeviceArray<double> x_, logits_, losses_;
  DeviceArray<double> weights_;   ///< class_count x width
  DeviceArray<double> gradient_;  ///< the same, then the loss
  PinnedArray<double> host_;      ///< weights on their way there, the gradient and the loss on their way back
  DeviceArray<std::uint32_t> classes_;
  Lane lane_;
};

Logistic::Logistic(MatrixView<const float> features, std::span<const double> mean, std::span<const std::size_t> classes,
                   std::size_t class_count)
    : rows_(features.rows),
      dim_(features.cols),
      width_((features.cols + 2) / 2 * 2),
      class_count_(class_count),
      x_(checked_mul(rows_, width_)),
      logits_(checked_mul(rows_, class_count)),
      losses_(rows_),
      weights_(checked_mul(class_count, width_)),
      gradient_(weights_.size() + 1),
      host_(gradient_.size()),
      classes_(rows_) {
  const std::vector<std::uint32_t> numbers(classes.begin(), classes.end());
  lane_.copy(numbers.data(), classes_.data(), numbers.size());
  upload(features, mean);
}

void Logistic::upload(MatrixView<const float> features, std::span<const double> mean) const {
  const DeviceArray<double> device_mean(dim_);
  lane_.copy(mean.data(), device_mean.data(), dim_);
  const DeviceArray<float> block(std::min(kBlockRows, rows_) * dim_);
  for (std::size_t first = 0; first < rows_; first += kBlockRows) {
    const std::size_t count = std::min(kBlockRows, rows_ - first);
    lane_.copy(features.middle_rows(first, count), packed(block, count, dim_));
    centre_rows(lane_.stream(), {block.data(), count, dim_, dim_}, device_mean.data(), width_,
                x_.data() + first * width_);
  }
  lane_.wait();
}

double Logistic::cross_entropy(MatrixView<const double> weights, std::span<const double> bias,
                               MatrixView<double> weights_gradient, std::span<double> bias_gradient) {
  for (std::size_t c = 0; c < class_count_; ++c) {
    double* row = host_.data() + c * width_;
    std::ranges::copy(weights.row(c), row);
    row[dim_] = bias[c];
    std::fill(row + dim_ + 1, row + width_, 0.0);
  }
  lane_.copy(host_.data(), weights_.data(), weights_.size());
  const double one = 1, zero = 0;
  // Rows are columns to cuBLAS: logits^T = weights x^T, then gradient^T = x^T logits.
  check(cublasDgemm(lane_.blas(), CUBLAS_OP_T, CUBLAS_OP_N, class_count(), rows(), width(), &one, weights_.data(),
                    width(), x_.data(), width(), &zero, logits_.data(), class_count()),
        "to multiply matrices");
  softmax_loss(lane_.stream(), classes_.data(), rows_, class_count_, logits_.data(), losses_.data(),
               gradient_.data() + weights_.size());
  check(cublasDgemm(lane_.blas(), CUBLAS_OP_N, CUBLAS_OP_T, width(), class_count(), rows(), &one, x_.data(), width(),
                    logits_.data(), class_count(), &zero, gradient_.data(), width()),
        "to multiply matrices");
  lane_.copy(gradient_.data(), host_.data(), gradient_.size());
  lane_.wait();
  for (std::size_t c = 0; c < class_count_; ++c) {
    const double* row = host_.data() + c * width_;
    std::ranges::transform(weights_gradient.row(c), std::span(row, dim_), weights_gradient.row(c).begin(),
                           std::plus<>());
    bias_gradient[c] += row[dim_];
  }
  return host_.data()[weights_.size()];
}

void Logistic::covariance(MatrixView<double> to) {
  const int dim = checked_int(dim_, "the features of a head");
  const DeviceArray<double> products(checked_mul(dim_, dim_));
  const double share = 1 / static_cast<double>(rows_), zero = 0;
  // The lower triangle by columns is our upper one by rows.
  check(cublasDsyrk(lane_.blas(), CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_N, dim, rows(), &share, x_.data(), width(), &zero,
                    products.data(), dim),
        "to sum products of rows");
  lane_.copy(packed(products, dim_, dim_), to);
  lane_.wait();
}

}  // namespace
}  // namespace kedge::cuda

namespace kedge {

std::unique_ptr<LogisticRows> make_logistic_rows(MatrixView<const float> features, std::span<const double> mean,
                                                 std::span<const std::size_t> classes, std::size_t class_count,
                                                 Device) {
  cuda::require();
  cuda::require_free(checked_mul(checked_mul(features.rows, features.cols + class_count), sizeof(double)),
                     "training a head", "train it on fewer rows");
  return std::make_unique<cuda::Logistic>(features, mean, classes, class_count);
}

}  // namespace kedge
