// SPDX-License-Identifier: Apache-2.0
#include "map/kernel_attach.h"

#include "map/fold.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kedge {
namespace {

/// In percent of what such a regression usually takes.
std::function<void(double)> tell_of(const Progress& progress, const std::string& space, double expected) {
  if (!progress) return {};
  return
      [&progress, step = fmt::format("making the kernel map of {}", space), expected, done = 0.0](double work) mutable {
        constexpr double kAll = 100;
        done += work;
        progress({step, static_cast<std::size_t>(std::min(kAll - 1, kAll * done / expected)),
                  static_cast<std::size_t>(kAll), ""});
      };
}

KernelRegression regress(const Statistics& from, MatrixView<const double> support, MatrixView<const double> targets,
                         MatrixView<const double> yardstick, double usual_whitening, const KernelOptions& options,
                         const Progress& progress) {
  Whitening coordinates = from.whitening();
  for (double& value : coordinates.mean) value = static_cast<float>(value);  // the very mean that a map subtracts
  const double work = kernel_work(support.rows, support.cols, targets.cols);
  return regress_kernel(
      {support, coordinates, targets, from.device(), yardstick, usual_whitening, tell_of(progress, from.space(), work)},
      options);
}

/// `outputs` may be more than were regressed; the others are always 0.
RelativeMap as_map(const std::string& space, Similarity similarity, KernelRegression regression, std::size_t outputs,
                   std::span<const double> mean) {
  const auto used = static_cast<Eigen::Index>(regression.weight.rows());
  EigenRows<double> weight =
      EigenRows<double>::Zero(static_cast<Eigen::Index>(outputs), static_cast<Eigen::Index>(regression.weight.cols()));
  weight.topRows(used) = as_eigen(regression.weight.view());
  Eigen::RowVectorXd bias = Eigen::RowVectorXd::Zero(static_cast<Eigen::Index>(outputs));
  bias.head(used) = as_eigen(std::span(std::as_const(regression.bias)));
  if (outputs != regression.weight.rows()) {
    Matrix padded(regression.kernel.coefficients.rows(), outputs);
    as_eigen(padded.view()).leftCols(used) = as_eigen(regression.kernel.coefficients.view());
    regression.kernel.coefficients = std::move(padded);
  }
  require_finite(space, regression.kernel.coefficients, {});
  require_finite(space, regression.kernel.whitener, {});
  const RelativeMap linear = fold(space, similarity, weight, bias, as_eigen(mean));
  return {space, similarity, linear.weight(), linear.bias(), linear.mean(), std::move(regression.kernel)};
}

}  // namespace

Attachment attach_by_kernel(const RidgeTargets& targets, MatrixView<const double> support, Similarity similarity,
                            const Statistics& statistics, const KernelOptions& options, const Progress& progress,
                            MatrixView<const double> yardstick) {
  const std::string& space = statistics.space();
  KernelRegression regression = regress(statistics, support, targets.values().view(), yardstick,
                                        yardstick.rows == 0 ? kHalf : kQuarter, options, progress);
  KernelFit fit = std::move(regression.fit);
  fit.r2.resize(targets.anchors());
  Attachment attached{std::make_shared<RelativeMap>(
                          as_map(space, similarity, std::move(regression), targets.anchors(), statistics.mean())),
                      AttachBy::kernel, statistics.options().shrinkage};
  attached.kernel = std::move(fit);
  return attached;
}

std::pair<RelativeMap, KernelFit> translate_by_kernel(const Statistics& from, MatrixView<const double> from_support,
                                                      MatrixView<const double> to_support, Similarity similarity,
                                                      const KernelOptions& options, const Progress& progress) {
  KernelRegression regression = regress(from, from_support, to_support, {}, kQuarter, options, progress);
  KernelFit fit = std::move(regression.fit);
  return {as_map(from.space(), similarity, std::move(regression), to_support.cols, from.mean()), std::move(fit)};
}

}  // namespace kedge
