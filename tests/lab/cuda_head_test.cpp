// SPDX-License-Identifier: Apache-2.0
#include "compute/needs_gpu.h"
#include "head/logistic.h"

#include <kedge/lab/head.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

namespace kedge {
namespace {

using test::difference;
using test::expect_error;
using test::random_matrix;

/// Heads that a GPU trains, held against those of the processor.
class HeadOnTheGpu : public test::NeedsGpu {};

/// Just enough values for a GPU to be used, in odd numbers, with a last batch that is not full.
constexpr std::size_t kRows = 1013, kDim = 101;
constexpr std::size_t kClasses = 7;

bool same_bits(const Matrix& a, const Matrix& b) {
  return std::ranges::equal(a.cells(), b.cells());
}

/// Rows that overlap with those of other classes, around a mean that is not zero.
struct Labelled {
  Matrix rows = random_matrix(kRows, kDim, 1);
  std::vector<std::int64_t> labels;
  std::vector<std::size_t> classes;

  Labelled() {
    const Matrix centres = random_matrix(kClasses, kDim, 2);
    for (std::size_t r = 0; r < kRows; ++r) {
      classes.push_back((r * r + r / 5) % kClasses);
      labels.push_back(static_cast<std::int64_t>(3 * classes.back()) - 5);
      for (std::size_t c = 0; c < kDim; ++c) rows.row(r)[c] += 2 + 0.2F * centres.row(classes.back())[c];
    }
  }
};

Matrix logits_of(const Labelled& data, HeadOptions options, Device device) {
  options.device = device;
  return train_classifier(data.rows.view(), data.labels, options).logits(data.rows.view());
}

HeadOptions mlp_options(double dropout) {
  HeadOptions options;
  options.epochs = 4;
  options.batch = 64;
  options.hidden = 77;
  options.dropout = dropout;
  options.seed = 5;
  return options;
}

TEST_F(HeadOnTheGpu, MlpClassifierIsTheProcessors) {
  const Labelled data;
  for (const double dropout : {0.0, 0.5}) {
    const HeadOptions options = mlp_options(dropout);
    const Matrix wanted = logits_of(data, options, Device::cpu);
    const Matrix found = logits_of(data, options, Device::cuda);
    EXPECT_LT(difference(found, wanted), 1e-3) << "dropout " << dropout;
    EXPECT_TRUE(same_bits(logits_of(data, options, Device::cuda), found));
  }
}

TEST_F(HeadOnTheGpu, MlpClassifierTakesAnyBatch) {
  const Labelled data;
  HeadOptions options = mlp_options(0.3);
  options.epochs = 1;
  options.hidden.reset();
  for (const std::size_t batch : {kRows - 1, kRows, 10 * kRows}) {  // a last batch of one row, and one of all
    options.batch = batch;
    const Matrix wanted = logits_of(data, options, Device::cpu);
    EXPECT_LT(difference(logits_of(data, options, Device::cuda), wanted), 1e-3) << batch;
  }
}

TEST_F(HeadOnTheGpu, MlpDecoderIsTheProcessors) {
  const Matrix x = random_matrix(kRows, kDim, 1), mix = random_matrix(kDim, 41, 2);
  Matrix y(kRows, mix.cols());
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t o = 0; o < y.cols(); ++o) {
      float sum = 0;
      for (std::size_t i = 0; i < kDim; ++i) sum += x.row(r)[i] * mix.row(i)[o];
      y.row(r)[o] = 100 + std::sin(0.1F * sum);
    }
  }
  HeadOptions options = mlp_options(0.5);  // which a decoder does not know
  const auto decoded = [&](Device device) {
    options.device = device;
    Matrix rows = train_decoder(x.view(), y.view(), options)(x.view());
    for (float& value : rows.cells()) value -= 100;
    return rows;
  };
  const Matrix found = decoded(Device::cuda);
  EXPECT_LT(difference(found, decoded(Device::cpu)), 1e-3);
  EXPECT_TRUE(same_bits(decoded(Device::cuda), found));
}

TEST_F(HeadOnTheGpu, MlpSaysLikeTheProcessorThatItsLossIsNotFinite) {
  const Labelled data;
  HeadOptions options = mlp_options(0);
  options.learning_rate = 1e30;
  std::string sentence;
  try {
    (void)logits_of(data, options, Device::cpu);
  } catch (const Error& error) {
    sentence = error.what();
  }
  EXPECT_THAT(sentence, ::testing::HasSubstr("not finite in epoch 1"));
  expect_error(
      Code::failed, [&] { (void)logits_of(data, options, Device::cuda); }, sentence);
}

TEST_F(HeadOnTheGpu, LogisticLossAgrees) {
  const Labelled data;
  const LogisticLoss on_processor(data.rows.view(), data.classes, kClasses, 0.7);
  const LogisticLoss on_gpu(data.rows.view(), data.classes, kClasses, 0.7, Device::cuda);
  const Eigen::VectorXd p = Eigen::VectorXd::LinSpaced(on_gpu.parameters(), -1, 1).array().sin() * 3;
  Eigen::VectorXd wanted(p.size()), found(p.size()), again(p.size());
  const double value = on_gpu.value(p, found);
  EXPECT_NEAR(value, on_processor.value(p, wanted), 1e-10 * value);
  EXPECT_LT((found - wanted).lpNorm<Eigen::Infinity>(), 1e-10 * wanted.lpNorm<Eigen::Infinity>());
  EXPECT_EQ(on_gpu.value(p, again), value);
  EXPECT_EQ(again, found);
  Eigen::VectorXd preconditioned = wanted;
  on_processor.precondition(wanted);
  on_gpu.precondition(preconditioned);
  EXPECT_LT((preconditioned - wanted).norm(), 1e-8 * wanted.norm());
}

TEST_F(HeadOnTheGpu, LogisticLossTakesAnyShape) {
  for (const auto& [rows, dim, class_count] :
       {std::array<std::size_t, 3>{1, 1, 2}, {9001, 8, 2}, {100, 33, 65}}) {  // more rows than are copied at once
    const Matrix x = random_matrix(rows, dim, 3);
    std::vector<std::size_t> classes(rows);
    for (std::size_t r = 0; r < rows; ++r) classes[r] = r % class_count;
    const LogisticLoss on_processor(x.view(), classes, class_count, 1);
    const LogisticLoss on_gpu(x.view(), classes, class_count, 1, Device::cuda);
    const Eigen::VectorXd p = Eigen::VectorXd::LinSpaced(on_gpu.parameters(), -1, 2);
    Eigen::VectorXd wanted(p.size()), found(p.size());
    EXPECT_NEAR(on_gpu.value(p, found), on_processor.value(p, wanted), 1e-10) << rows;
    EXPECT_LT((found - wanted).lpNorm<Eigen::Infinity>(), 1e-10) << rows;
  }
}

TEST_F(HeadOnTheGpu, LinearHeadIsTheProcessors) {
  const Labelled data;
  HeadOptions options;
  options.kind = HeadKind::linear;
  const Matrix found = logits_of(data, options, Device::cuda);
  EXPECT_LT(difference(found, logits_of(data, options, Device::cpu)), 1e-5);
  EXPECT_TRUE(same_bits(logits_of(data, options, Device::cuda), found));
}

TEST_F(HeadOnTheGpu, SmallHeadsAreTrainedByTheProcessor) {
  const Matrix x = random_matrix(100, 5, 1);
  std::vector<std::int64_t> labels(100);
  for (std::size_t r = 0; r < labels.size(); ++r) labels[r] = x.row(r)[0] > 0 ? 1 : 0;
  HeadOptions options;
  const Matrix wanted = train_classifier(x.view(), labels, options).logits(x.view());
  options.device = Device::cuda;
  EXPECT_TRUE(same_bits(train_classifier(x.view(), labels, options).logits(x.view()), wanted));
}

TEST(HeadWithoutGpu, SaysWhatIsMissing) {
  std::string reason;
  try {
    require_device(Device::cuda);
    GTEST_SKIP() << "there is a GPU";
  } catch (const Error& error) {
    reason = error.what();
  }
  const Matrix x = random_matrix(6, 3, 1);
  const std::vector<std::int64_t> labels{1, 2, 1, 2, 1, 2};
  HeadOptions options;
  options.device = Device::cuda;
  for (const HeadKind kind : {HeadKind::mlp, HeadKind::linear}) {
    options.kind = kind;
    expect_error(
        Code::failed, [&] { (void)train_classifier(x.view(), labels, options); }, reason);
    expect_error(
        Code::failed, [&] { (void)train_decoder(x.view(), x.view(), options); }, reason);
  }
}

}  // namespace
}  // namespace kedge
