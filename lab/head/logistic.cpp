// SPDX-License-Identifier: Apache-2.0
#include "head/logistic.h"

#include "base/eigen.h"
#include "base/parallel.h"
#include "compute/device.h"
#include "compute/products.h"
#include "compute/threads.h"
#include "head/lbfgs.h"
#include "space/sum_rows.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/whitening.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kedge {
namespace {

constexpr std::size_t kBlockRows = 4096;
constexpr double kTolerance = 1e-6;
constexpr double kGoodEnough = 1e-4;  // scikit-learn's tolerance, if rounding stops it before ours is reached
constexpr std::size_t kMostSteps = 2000;
constexpr std::size_t kStepsToApproach = 40;

/// Calls work(first, rows) with the features in float64, block by block, so that they are never held whole.
template <class Work>
void for_blocks(MatrixView<const float> features, const Work& work) {
  Matrix64 buffer(std::min(kBlockRows, features.rows), features.cols);
  for (std::size_t first = 0; first < features.rows; first += kBlockRows) {
    const auto block = buffer.view().middle_rows(0, std::min(kBlockRows, features.rows - first));
    as_eigen(block) = as_eigen(features.middle_rows(first, block.rows)).cast<double>();
    work(first, block);
  }
}

/// Summed around the first row, so that no digits are lost however far the mean is from zero.
Eigen::RowVectorXd mean_of(MatrixView<const float> features) {
  const Eigen::RowVectorXd pilot = as_eigen(features.row(0)).cast<double>();
  Eigen::RowVectorXd sum = Eigen::RowVectorXd::Zero(pilot.size());
  for_blocks(features, [&](std::size_t, MatrixView<double> block) {
    auto rows = as_eigen(block);
    rows.rowwise() -= pilot;
    sum += column_sums(rows);
  });
  return pilot + sum / static_cast<double>(features.rows);
}

Minimum descend(const LogisticLoss& loss, std::size_t most_steps, const Progress& progress,
                Eigen::VectorXd& parameters) {
  const SmoothProblem problem{
      [&](const Eigen::VectorXd& x, Eigen::VectorXd& gradient) { return loss.value(x, gradient); },
      [&](Eigen::VectorXd& v) { loss.precondition(v); }};
  parameters = Eigen::VectorXd::Zero(loss.parameters());
  return minimize(problem, parameters, kTolerance, most_steps, [&](std::size_t step) {
    if (progress) progress({"training a linear head", step, most_steps, ""});
  });
}

}  // namespace

Matrix LinearHead::apply(MatrixView<const float> features) const {
  Matrix result(features.rows, weight.rows());
  const EigenRows<float> narrow = as_eigen(weight.view()).cast<float>();
  auto out = as_eigen(result.view());
  set_product(out, features, narrow.transpose());
  out.rowwise() += as_eigen(std::span(bias)).cast<float>();
  return result;
}

LogisticLoss::LogisticLoss(MatrixView<const float> features, std::span<const std::size_t> classes,
                           std::size_t class_count, double l2, Device device)
    : features_(features),
      classes_(classes),
      class_count_(static_cast<Eigen::Index>(class_count)),
      dim_(static_cast<Eigen::Index>(features.cols)),
      penalty_(l2 / static_cast<double>(features.rows)) {
  Matrix64 covariance;
  if (!off_processor(device)) {
    Moments moments({{"features", features.cols}});
    for_blocks(features, [&](std::size_t, MatrixView<double> block) { add_and_overwrite(moments, block); });
    mean_ = as_eigen(moments.mean());
    covariance = std::move(moments).covariance();
  } else {
    mean_ = mean_of(features);
    on_device_ = make_logistic_rows(features, std::span(mean_.data(), features.cols), classes, class_count, device);
    covariance = Matrix64(features.cols, features.cols);
    on_device_->covariance(covariance.view());
    auto cells = as_eigen(covariance.view());
    cells.triangularView<Eigen::StrictlyLower>() = cells.transpose();
  }
  auto bound = as_eigen(covariance.view());
  bound *= 0.5;
  bound.diagonal().array() += penalty_;
  bound_.emplace(std::move(covariance));
  if (!bound_->exists()) {
    throw Error(Code::bad_argument, fmt::format("logistic regression: the features do not vary in some directions, and "
                                                "an l2 of {} is too small to settle those; give a larger one",
                                                l2));
  }
}

Eigen::Index LogisticLoss::parameters() const {
  return (dim_ + 1) * class_count_;
}

double LogisticLoss::value(const Eigen::VectorXd& parameters, Eigen::VectorXd& gradient) const {
  const auto weight = parameters.head(dim_ * class_count_);
  gradient.head(weight.size()) = penalty_ * weight;
  gradient.tail(class_count_).setZero();
  const double loss = on_device_ ? cross_entropy_on_device(parameters, gradient) : cross_entropy(parameters, gradient);
  return loss + penalty_ / 2 * weight.squaredNorm();
}

/// The loss of one block of rows, and its gradients, which are added up in the order of the rows: sums must not depend
/// on how many threads there are.
class LogisticLoss::BlockOfRows {
 public:
  BlockOfRows(const LogisticLoss& loss, const Eigen::VectorXd& parameters, Eigen::VectorXd& gradient, double& total)
      : loss_(loss),
        weight_(parameters.data(), loss.dim_, loss.class_count_),
        bias_(parameters.tail(loss.class_count_).transpose()),
        weight_gradient_(gradient.data(), loss.class_count_, loss.dim_),
        bias_gradient_(gradient.tail(loss.class_count_)),
        total_(total) {}

  void read(std::size_t first, std::size_t rows) {
    x_ = as_eigen(loss_.features_.middle_rows(first, rows)).cast<double>();
    x_.rowwise() -= loss_.mean_;
    logits_ = product(x_, weight_);
    logits_.rowwise() += bias_;
    own_ = 0;
    const double share = 1 / static_cast<double>(loss_.features_.rows);
    for (Eigen::Index r = 0; r < logits_.rows(); ++r) {
      auto row = logits_.row(r);
      const auto truth = static_cast<Eigen::Index>(loss_.classes_[first + static_cast<std::size_t>(r)]);
      const double largest = row.maxCoeff();
      const double right = row[truth];
      row = (row.array() - largest).exp();
      const double sum = row.sum();
      own_ += share * (std::log(sum) + largest - right);
      row *= share / sum;
      row[truth] -= share;
    }
    own_gradient_ = product(logits_.transpose(), x_);
  }

  void hand_over(std::size_t, std::size_t) {
    total_ += own_;
    weight_gradient_ += own_gradient_;
    bias_gradient_ += column_sums(logits_).transpose();
  }

 private:
  const LogisticLoss& loss_;
  Eigen::Map<const Eigen::MatrixXd> weight_;
  Eigen::RowVectorXd bias_;
  Eigen::Map<EigenRows<double>> weight_gradient_;
  Eigen::VectorBlock<Eigen::VectorXd> bias_gradient_;
  double& total_;
  double own_ = 0;
  EigenRows<double> x_, logits_, own_gradient_;
};

double LogisticLoss::cross_entropy(const Eigen::VectorXd& parameters, Eigen::VectorXd& gradient) const {
  constexpr std::size_t kRows = 1024;  // few, so that every thread has some from a few thousand rows on
  double total = 0;
  parallel_blocks_in_order(features_.rows, kRows, threads(),
                           [&] { return BlockOfRows(*this, parameters, gradient, total); });
  return total;
}

double LogisticLoss::cross_entropy_on_device(const Eigen::VectorXd& parameters, Eigen::VectorXd& gradient) const {
  const std::size_t dim = features_.cols;
  const auto class_count = static_cast<std::size_t>(class_count_);
  const std::size_t weights = class_count * dim;
  return on_device_->cross_entropy(
      {parameters.data(), class_count, dim, dim}, std::span(parameters.data() + weights, class_count),
      {gradient.data(), class_count, dim, dim}, std::span(gradient.data() + weights, class_count));
}

void LogisticLoss::precondition(Eigen::VectorXd& v) const {
  bound_.value().solve({v.data(), static_cast<std::size_t>(class_count_), features_.cols, features_.cols});
  v.tail(class_count_) *= 2;
}

LinearHead LogisticLoss::head(const Eigen::VectorXd& parameters) const {
  const Eigen::Map<const Eigen::MatrixXd> weight(parameters.data(), dim_, class_count_);
  LinearHead head{Matrix64(static_cast<std::size_t>(class_count_), static_cast<std::size_t>(dim_)),
                  std::vector<double>(static_cast<std::size_t>(class_count_))};
  as_eigen(head.weight.view()) = weight.transpose();
  as_eigen(std::span(head.bias)) = parameters.tail(class_count_).transpose() - product(mean_, weight);
  return head;
}

LinearHead fit_logistic(MatrixView<const float> features, std::span<const std::size_t> classes, std::size_t class_count,
                        double l2, const Progress& progress, Device device) {
  const LogisticLoss loss(features, classes, class_count, l2, device);
  Eigen::VectorXd parameters;
  const Minimum found = descend(loss, kMostSteps, progress, parameters);
  Eigen::VectorXd gradient(parameters.size());
  (void)loss.value(parameters, gradient);
  const double steepest = gradient.lpNorm<Eigen::Infinity>();
  if (!(found.converged || steepest < kGoodEnough)) {
    throw Error(Code::failed, fmt::format("logistic regression did not converge: after {} steps its gradient is still "
                                          "{:.2g}; an l2 other than {} may help",
                                          found.steps, steepest, l2));
  }
  return loss.head(parameters);
}

std::optional<LinearHead> approach_logistic(MatrixView<const float> features, std::span<const std::size_t> classes,
                                            std::size_t class_count, double l2, const Progress& progress,
                                            Device device) {
  std::optional<LogisticLoss> loss;
  try {
    loss.emplace(features, classes, class_count, l2, device);
  } catch (const Error& problem) {
    if (problem.code() != Code::bad_argument) throw;
    return std::nullopt;
  }
  Eigen::VectorXd parameters;
  (void)descend(*loss, kStepsToApproach, progress, parameters);
  return loss->head(parameters);
}

}  // namespace kedge
