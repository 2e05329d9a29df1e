// SPDX-License-Identifier: Apache-2.0
#include "compute/products.h"
#include "compute/threads.h"
#include "head/logistic.h"
#include "head/training.h"
#include "head/yardstick.h"
#include "regress/ridge.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/lab/head.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

namespace kedge {
namespace {

void require_rows(MatrixView<const float> features, std::size_t others, std::string_view what) {
  if (features.rows == others && features.rows != 0 && features.cols != 0) return;
  throw Error(Code::bad_argument, fmt::format("a head needs as many {} as rows of features, got {} for {} rows of {}",
                                              what, others, features.rows, features.cols));
}

EigenRows<float> copy_of(MatrixView<const float> rows) {
  return as_eigen(rows);
}

Matrix matrix_of(const EigenRows<float>& rows) {
  Matrix matrix(static_cast<std::size_t>(rows.rows()), static_cast<std::size_t>(rows.cols()));
  as_eigen(matrix.view()) = rows;
  return matrix;
}

/// With fewer values of features, the processor has trained a head before a GPU is ready: its stream, cuBLAS and memory
/// take some tenths of a second.
constexpr std::size_t kLeastValuesForGpu = 100'000;

Device device_for(MatrixView<const float> features, Device wanted) {
  return features.rows * features.cols < kLeastValuesForGpu ? Device::cpu : wanted;
}

/// The classes of labels, ascending, and the index of each row's class.
struct Classes {
  std::vector<std::int64_t> values;
  std::vector<std::size_t> numbers;

  explicit Classes(std::span<const std::int64_t> labels) : values(labels.begin(), labels.end()) {
    std::ranges::sort(values);
    values.erase(std::unique(values.begin(), values.end()), values.end());
    for (const std::int64_t label : labels) {
      numbers.push_back(static_cast<std::size_t>(std::ranges::lower_bound(values, label) - values.begin()));
    }
  }
};

Classifier linear_classifier(LinearHead solved, std::vector<std::int64_t> classes) {
  auto head = std::make_shared<LinearHead>(std::move(solved));
  return {std::move(classes), [head](MatrixView<const float> rows) { return head->apply(rows); }};
}

HeadFunction train_mlp_classifier(MatrixView<const float> features, std::span<const std::size_t> classes,
                                  std::size_t class_count, const HeadOptions& o, const Progress& progress) {
  if (features.cols < 2 || o.hidden == 1) {
    throw Error(Code::bad_argument, fmt::format("an mlp head standardises its {} by their mean and spread, which "
                                                "leaves nothing if there is only one; use a linear head",
                                                o.hidden == 1 ? "hidden values" : "features"));
  }
  const MlpTraining training{{features.cols, o.hidden.value_or(features.cols), class_count, true},
                             o.epochs.value_or(0),
                             o.batch,
                             o.learning_rate,
                             o.weight_decay,
                             o.dropout,
                             o.seed,
                             "training an mlp head",
                             device_for(features, o.device)};
  auto mlp = std::make_shared<Mlp<float>>(train_mlp(features, {classes, {}}, training, progress));
  return [mlp](MatrixView<const float> rows) { return matrix_of(mlp->apply(copy_of(rows))); };
}

/// Features and targets centred and scaled, so that one learning rate suits all.
struct Standard {
  Eigen::RowVectorXf mean;
  float spread = 1;

  explicit Standard(MatrixView<const float> rows) {
    const auto cells = as_eigen(rows);
    mean = column_means(cells);
    double squares = 0;
    for (Eigen::Index r = 0; r < cells.rows(); ++r) squares += (cells.row(r) - mean).cast<double>().squaredNorm();
    spread = static_cast<float>(std::sqrt(squares / static_cast<double>(cells.size())));
    if (!(spread > 0)) spread = 1;
  }
  [[nodiscard]] EigenRows<float> apply(MatrixView<const float> rows) const {
    return (as_eigen(rows).rowwise() - mean) / spread;
  }
  /// The same as a Matrix, without another copy.
  [[nodiscard]] Matrix matrix(MatrixView<const float> rows) const {
    Matrix result(rows.rows, rows.cols);
    as_eigen(result.view()) = (as_eigen(rows).rowwise() - mean) / spread;
    return result;
  }
};

/// A decoder has no LayerNorm, because it needs the lengths of its features.
HeadFunction train_mlp_decoder(MatrixView<const float> features, MatrixView<const float> targets, const HeadOptions& o,
                               const Progress& progress) {
  const Standard in(features);
  const Standard out(targets);
  const Matrix x = in.matrix(features);
  const Matrix y = out.matrix(targets);
  const MlpTraining training{{features.cols, o.hidden.value_or(HeadOptions::kDecoderHidden), targets.cols, false},
                             o.epochs.value_or(0),
                             o.batch,
                             o.learning_rate,
                             o.weight_decay,
                             0,
                             o.seed,
                             "training an mlp decoder",
                             device_for(features, o.device)};
  auto mlp = std::make_shared<Mlp<float>>(train_mlp(x.view(), {{}, y.view()}, training, progress));
  return [mlp, in, out](MatrixView<const float> rows) {
    EigenRows<float> decoded = mlp->apply(in.apply(rows)) * out.spread;
    decoded.rowwise() += out.mean;
    return matrix_of(decoded);
  };
}

/// The strength is found by cross-validation.
HeadFunction train_ridge_decoder(MatrixView<const float> features, MatrixView<const float> targets) {
  const auto centred = [](MatrixView<const float> rows, std::vector<double>& mean) {
    Matrix64 copy(rows.rows, rows.cols);
    auto cells = as_eigen(copy.view());
    cells = as_eigen(rows).cast<double>();
    mean.resize(rows.cols);
    as_eigen(std::span(mean)) = column_means(cells);
    cells.rowwise() -= as_eigen(std::span(std::as_const(mean)));
    return copy;
  };
  std::vector<double> mean_in;
  std::vector<double> mean_out;
  const Matrix64 x = centred(features, mean_in);
  const Matrix64 y = centred(targets, mean_out);
  const Ridge ridge(x.view(), y.view(), 1);
  const Matrix64 solution = ridge.solve(ridge.best());
  auto head = std::make_shared<LinearHead>(LinearHead{Matrix64(targets.cols, features.cols), mean_out});
  as_eigen(head->weight.view()) = as_eigen(solution.view()).transpose();
  as_eigen(std::span(head->bias)) -= product(as_eigen(std::span(mean_in)), solution.view());
  return [head](MatrixView<const float> rows) { return head->apply(rows); };
}

}  // namespace

void require_valid(const HeadOptions& o) {
  const auto refuse = [](std::string_view what, auto value, std::string_view expected) {
    throw Error(Code::bad_argument, fmt::format("the head's {} is {}, expected {}", what, value, expected));
  };
  const auto positive = [](double value) { return std::isfinite(value) && value > 0; };
  if (o.batch == 0) refuse("batch", o.batch, "1 or more rows");
  if (!positive(o.learning_rate)) refuse("learning rate", o.learning_rate, "a number above 0");
  if (!std::isfinite(o.weight_decay) || o.weight_decay < 0)
    refuse("weight decay", o.weight_decay, "a number of 0 or more");
  if (!(o.dropout >= 0 && o.dropout < 1)) refuse("dropout", o.dropout, "a number from 0 to below 1");
  if (!positive(o.l2)) refuse("l2", o.l2, "a number above 0");
}

void require_classifier(HeadKind kind) {
  if (kind != HeadKind::ridge) return;
  throw Error(Code::bad_argument, "head ridge decodes targets; labels need mlp or linear");
}

Classifier::Classifier(std::vector<std::int64_t> classes, HeadFunction logits)
    : classes_(std::move(classes)), logits_(std::move(logits)) {}

std::vector<std::int64_t> Classifier::predict(MatrixView<const float> features) const {
  const Work work;
  const Matrix scores = logits(features);
  std::vector<std::int64_t> labels;
  for (std::size_t r = 0; r < scores.rows(); ++r) {
    const auto row = scores.row(r);
    labels.push_back(classes_[static_cast<std::size_t>(std::ranges::max_element(row) - row.begin())]);
  }
  return labels;
}

Classifier train_classifier(MatrixView<const float> features, std::span<const std::int64_t> labels,
                            const HeadOptions& options, const Progress& progress) {
  const Work work;
  require_valid(options);
  require_device(options.device);
  require_classifier(options.kind);
  require_rows(features, labels.size(), "labels");
  Classes classes(labels);
  const std::size_t count = classes.values.size();
  if (count < 2) {
    throw Error(Code::bad_argument,
                fmt::format("all {} training rows have the label {}; a classifier needs two classes or more",
                            labels.size(), classes.values.front()));
  }
  if (options.kind == HeadKind::mlp) {
    HeadFunction logits = train_mlp_classifier(features, classes.numbers, count, options, progress);
    return {std::move(classes.values), std::move(logits)};
  }
  return linear_classifier(
      fit_logistic(features, classes.numbers, count, options.l2, progress, device_for(features, options.device)),
      std::move(classes.values));
}

std::optional<Classifier> train_yardstick(MatrixView<const float> features, std::span<const std::int64_t> labels,
                                          const HeadOptions& options, const Progress& progress) {
  const Work work;
  Classes classes(labels);
  std::optional<LinearHead> head = approach_logistic(features, classes.numbers, classes.values.size(), options.l2,
                                                     progress, device_for(features, options.device));
  if (!head) return std::nullopt;
  return linear_classifier(std::move(*head), std::move(classes.values));
}

HeadFunction train_decoder(MatrixView<const float> features, MatrixView<const float> targets,
                           const HeadOptions& options, const Progress& progress) {
  const Work work;
  require_valid(options);
  require_device(options.device);
  require_rows(features, targets.rows, "rows of targets");
  if (options.kind == HeadKind::mlp) return train_mlp_decoder(features, targets, options, progress);
  return train_ridge_decoder(features, targets);
}

}  // namespace kedge
