// SPDX-License-Identifier: Apache-2.0
#include "base/rows.h"
#include "base/wording.h"
#include "compute/cpu/kernels.h"
#include "compute/lapack.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "map/fold.h"

#include <kedge/attachment.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace kedge {
namespace {

constexpr Names<AttachBy, 4> kAttachByNames{"way to attach", {"mixture", "ridge", "kernel", "auto"}};

template <class T>
void normalize(MatrixView<T> rows) {
  for (std::size_t r = 0; r < rows.rows; ++r) set_unit(rows.row(r), rows.row(r));
}

void apply_cosine(const RelativeMap& map, MatrixView<const float> x, MatrixView<float> rr) {
  const Work work;
  const Matrix unit = unit_rows(x);
  set_product(rr, unit.view(), as_eigen(map.weight().view()).transpose());
}

/// |x - a|^2 = |x|^2 + |a|^2 - 2 x.a, around the mean so that the terms are no larger than they must be.
void apply_euclidean(const RelativeMap& map, MatrixView<const float> x, MatrixView<float> rr) {
  const Work work;
  EigenRows<float> centred = as_eigen(x).rowwise() - as_eigen(std::span(map.mean()));
  const auto anchors = as_eigen(map.weight().view());
  auto out = as_eigen(rr);
  set_product(rr, centred, anchors.transpose());
  for (Eigen::Index r = 0; r < out.rows(); ++r) {
    const float length = centred.row(r).squaredNorm();
    for (Eigen::Index a = 0; a < out.cols(); ++a) {
      out(r, a) = distance(length, map.bias()[static_cast<std::size_t>(a)], out(r, a),
                           [&] { return (centred.row(r) - anchors.row(a)).squaredNorm(); });
    }
  }
}

void apply_angular(const RelativeMap& map, MatrixView<const float> x, MatrixView<float> rr) {
  const Work work;
  const Matrix units = unit_rows(x);
  const auto unit = as_eigen(units.view());
  const auto anchors = as_eigen(map.weight().view());
  auto out = as_eigen(rr);
  set_product(rr, unit, anchors.transpose());
  for (Eigen::Index r = 0; r < out.rows(); ++r) {
    for (Eigen::Index a = 0; a < out.cols(); ++a) {
      out(r, a) = angular(out(r, a), [&](int sign) {
        return (unit.row(r) - static_cast<float>(sign) * anchors.row(a)).cast<double>().squaredNorm();
      });
    }
  }
}

void apply_manhattan(const RelativeMap& map, MatrixView<const float> x, MatrixView<float> rr) {
  Eigen::RowVectorXf centred(static_cast<Eigen::Index>(x.cols));
  for (std::size_t r = 0; r < x.rows; ++r) {
    centred = as_eigen(x.row(r)) - as_eigen(std::span(map.mean()));
    std::ranges::fill(rr.row(r), 0.0F);
    cpu::add_differences(map.weight().view(), {centred.data(), x.cols}, rr.row(r));
  }
}

/// Rows times the inverse of the shrunk covariance; false if it is so near to singular that eigenvectors are needed.
bool times_inverse(EigenRows<double>& rows, Matrix64 covariance) {
  const Cholesky cholesky(std::move(covariance));
  if (!cholesky.is_comfortable()) return false;
  cholesky.solve(view_of(rows));
  return true;
}

[[noreturn]] void refuse_scale(const std::string& space) {
  refuse_file(
      "space '{}': its values are so large or so small that its map does not fit in float32; rescale the embeddings, "
      "e.g. divide them by their standard deviation",
      space);
}

/// Products of values in the range of float32 may be outside it. `typical` is the mean squared length of a row.
void require_squares(const std::string& space, const EigenRows<double>& anchors, double typical) {
  const double largest = anchors.rowwise().squaredNorm().maxCoeff();
  if (typical < std::numeric_limits<float>::min() || !(largest <= std::numeric_limits<float>::max())) {
    refuse_scale(space);
  }
}

void require_kernel(const RelativeMap& map) {
  const Kernel& kernel = map.kernel().value();
  const std::size_t dim = map.input_dim();
  const bool whitener = kernel.whitener.rows() == 0 || (kernel.whitener.rows() == dim && kernel.whitener.cols() == dim);
  if (!whitener || kernel.rows.rows() == 0 || kernel.rows.cols() != dim ||
      kernel.coefficients.rows() != kernel.rows.rows() || kernel.coefficients.cols() != map.output_dim()) {
    refuse(
        "relative map of '{}': its kernel has a whitener of {} x {}, {} x {} rows and {} x {} coefficients, which do "
        "not fit a map from {} to {} values",
        map.space(), kernel.whitener.rows(), kernel.whitener.cols(), kernel.rows.rows(), kernel.rows.cols(),
        kernel.coefficients.rows(), kernel.coefficients.cols(), dim, map.output_dim());
  }
  if (!(kernel.width > 0 && std::isfinite(kernel.width))) {
    refuse("relative map of '{}': its kernel has a width of {}, expected a number above 0", map.space(), kernel.width);
  }
  if (map.similarity() != Similarity::wip && map.similarity() != Similarity::inner) {
    refuse("relative map of '{}': the similarity {} has no kernel", map.space(), to_string(map.similarity()));
  }
}

}  // namespace

std::string_view to_string(AttachBy by) {
  return kAttachByNames.of(by);
}
AttachBy parse_attach_by(std::string_view name) {
  return kAttachByNames.parse(name);
}

RelativeMap::RelativeMap(std::string space, Similarity similarity, Matrix weight, std::vector<float> bias,
                         std::vector<float> mean, std::optional<Kernel> kernel)
    : space_(std::move(space)),
      similarity_(similarity),
      weight_(std::move(weight)),
      bias_(std::move(bias)),
      mean_(std::move(mean)),
      kernel_(std::move(kernel)) {
  if (weight_.rows() == 0 || weight_.cols() == 0 || bias_.size() != weight_.rows() || mean_.size() != weight_.cols()) {
    refuse("relative map of '{}': weight is {} x {}, bias has {} values and mean {}; they do not fit together", space_,
           weight_.rows(), weight_.cols(), bias_.size(), mean_.size());
  }
  if (kernel_) require_kernel(*this);
}

void RelativeMap::apply(MatrixView<const float> x, MatrixView<float> rr) const {
  if (x.cols != input_dim()) {
    refuse("'{}' expects embeddings of {} values, got {}; were they made by another encoder?", space_, input_dim(),
           x.cols);
  }
  if (rr.rows != x.rows || rr.cols != output_dim()) {
    refuse("'{}' makes {} x {} values here, but the output is {} x {}", space_, x.rows, output_dim(), rr.rows, rr.cols);
  }
  require_apart(x, rr);
  if (kernel_) {
    const Work work;
    return apply_kernel(kernel_function(*this), x, rr);
  }
  switch (similarity_) {
    case Similarity::wip:
    case Similarity::inner: return apply_affine(weight_.view(), bias_, x, rr);
    case Similarity::cosine: return apply_cosine(*this, x, rr);
    case Similarity::euclidean: return apply_euclidean(*this, x, rr);
    case Similarity::angular: return apply_angular(*this, x, rr);
    case Similarity::manhattan: return apply_manhattan(*this, x, rr);
  }
}

Matrix RelativeMap::apply(MatrixView<const float> x) const {
  Matrix rr(x.rows, output_dim());
  apply(x, rr.view());
  return rr;
}

RelativeMap make_relative_map(const std::string& space, Similarity similarity, const Matrix64& anchors,
                              const Moments& moments, const WhiteningOptions& options) {
  const Work work;
  const auto mean = as_eigen(moments.mean());
  EigenRows<double> weight = as_eigen(anchors.view());
  Eigen::RowVectorXd bias = Eigen::RowVectorXd::Zero(weight.rows());
  switch (similarity) {
    case Similarity::wip: {
      weight.rowwise() -= mean;
      if (!times_inverse(weight, shrunk_covariance(moments, options))) {
        const Whitening whitening = make_whitening(moments, options);
        weight = product(product(weight, whitening.whitener.view()), whitening.whitener.view());
      }
      bias = -product(mean, weight.transpose());
      break;
    }
    case Similarity::cosine:
    case Similarity::angular: normalize(view_of(weight)); break;
    case Similarity::euclidean:
      require_squares(space, weight, moments.total_variance());
      weight.rowwise() -= mean.cast<float>().cast<double>();  // the very mean that apply() subtracts
      bias = weight.rowwise().squaredNorm().transpose();
      break;
    case Similarity::manhattan: weight.rowwise() -= mean.cast<float>().cast<double>(); break;
    case Similarity::inner: require_squares(space, weight, moments.total_variance() + mean.squaredNorm()); break;
  }
  return fold(space, similarity, weight, bias, mean);
}

void require_apart(MatrixView<const float> x, MatrixView<const float> y) {
  const std::less_equal<const float*> no_later;
  for (std::size_t i = 0, j = 0; i < x.rows && j < y.rows;) {  // rows of both ascend
    const auto from = x.row(i), to = y.row(j);
    if (no_later(from.data() + from.size(), to.data())) {
      ++i;
    } else if (no_later(to.data() + to.size(), from.data())) {
      ++j;
    } else {
      refuse(
          "row {} of the input shares memory with row {} of the output, which would be written before all rows are "
          "read; give the output memory of its own",
          i, j);
    }
  }
}

RelativeMap fold(const std::string& space, Similarity similarity, const EigenRows<double>& weight,
                 const Eigen::RowVectorXd& bias, const Eigen::RowVectorXd& mean) {
  Matrix weight32 = matrix_of<float>(weight);
  std::vector<float> bias32(bias.begin(), bias.end()), mean32(mean.begin(), mean.end());
  require_finite(space, weight32, bias32);
  require_finite(space, weight32, mean32);
  return {space, similarity, std::move(weight32), std::move(bias32), std::move(mean32)};
}

void require_finite(const std::string& space, const Matrix& weight, std::span<const float> bias) {
  if (!as_eigen(weight.view()).allFinite() || !as_eigen(bias).allFinite()) refuse_scale(space);
}

void normalize_rows(MatrixView<float> rows) {
  normalize(rows);
}

}  // namespace kedge
