// SPDX-License-Identifier: Apache-2.0
#include "base/eigen.h"
#include "compute/backend.h"
#include "compute/kernel.h"
#include "compute/kernel_cases.h"
#include "compute/lapack.h"
#include "compute/needs_gpu.h"
#include "compute/row_worker.h"

#include <algorithm>
#include <cmath>

namespace kedge {
namespace {

using test::difference;
using test::expect_error;
using test::random_matrix;
using test::space_of;
using test::TemporaryFolder;

/// What the GPU computes, held against the processor.
class OnTheGpu : public test::NeedsGpu {};

/// Views of the same hidden causes, around a mean far from zero.
Matrix view_of(const Matrix& causes, std::size_t dim, unsigned seed) {
  const Matrix mix = random_matrix(causes.cols(), dim, seed);
  Matrix x = random_matrix(causes.rows(), dim, seed + 1);
  for (std::size_t r = 0; r < x.rows(); ++r) {
    for (std::size_t c = 0; c < dim; ++c) {
      float sum = 20 + 0.3F * x.row(r)[c];
      for (std::size_t k = 0; k < causes.cols(); ++k) {
        sum += causes.row(r)[k] * mix.row(k)[c] / static_cast<float>(k + 1);
      }
      x.row(r)[c] = sum;
    }
  }
  return x;
}

Matrix64 symmetric_matrix(std::size_t dim) {
  const Matrix x = random_matrix(dim, dim, 3);
  Matrix64 a(dim, dim);
  for (std::size_t i = 0; i < dim; ++i) {
    for (std::size_t j = 0; j < dim; ++j) a.row(i)[j] = static_cast<double>(x.row(i)[j]) + x.row(j)[i];
  }
  return a;
}

/// max |A v - value v| over all pairs.
double residual(const Matrix64& a, const Eigenpairs& pairs) {
  double largest = 0;
  for (std::size_t p = 0; p < pairs.values.size(); ++p) {
    const auto v = pairs.vectors.row(p);
    for (std::size_t i = 0; i < a.rows(); ++i) {
      double sum = -pairs.values[p] * v[i];
      for (std::size_t j = 0; j < a.cols(); ++j) sum += a.row(i)[j] * v[j];
      largest = test::worse(largest, std::abs(sum));
    }
  }
  return largest;
}

TEST_F(OnTheGpu, TooLittleMemoryIsToldBeforehandAndWhenItHappens) {
  const auto backend = make_backend(Device::cuda, Precision::tf32);
  expect_error(
      Code::failed, [&] { backend->require_memory(std::size_t{1} << 50, "learning", "lower support"); },
      "learning needs", "GiB are free", "lower support, or use device = cpu");
  expect_error(
      Code::failed, [&] { (void)backend->make(std::size_t{1} << 25, std::size_t{1} << 25); }, "GiB are free",
      "device = cpu");
  EXPECT_NO_THROW((void)backend->make(3, 3)) << "what failed before must not be found again";
}

TEST_F(OnTheGpu, MomentsAgree) {
  const Matrix a = view_of(random_matrix(40001, 3, 1), 300, 2);  // several blocks, and an odd rest
  const Matrix b = random_matrix(a.rows(), 7, 4);
  const std::vector<Space> spaces{space_of("a", a), space_of("b", b)};
  const Moments wanted = compute_joint_moments(spaces);
  const Moments found = compute_joint_moments(spaces, Device::cuda);
  EXPECT_EQ(found.rows(), wanted.rows());
  EXPECT_LT(difference<double>(found.mean(), wanted.mean()), 1e-12);
  EXPECT_LT(difference(found.covariance(), wanted.covariance()), 1e-12);
  EXPECT_TRUE(found.fourth().empty());
}

TEST_F(OnTheGpu, MomentsRefuseWhatTheProcessorRefuses) {
  Matrix x = random_matrix(3000, 9, 1);
  x.row(1234)[5] = std::nanf("");
  expect_error(
      Code::bad_file, [&] { (void)compute_moments(space_of("x", x), Device::cuda); }, "row 1234", "NaN");
  Matrix flat(100, 3);
  std::ranges::fill(flat.cells(), 0.1F);
  expect_error(
      Code::bad_file, [&] { (void)compute_moments(space_of("flat", flat), Device::cuda); }, "all the same");
}

TEST_F(OnTheGpu, EigenpairsReconstructTheMatrix) {
  for (const std::size_t dim : {5U, 300U, 513U}) {
    const Matrix64 a = symmetric_matrix(dim);
    const Eigenpairs all = eigh(a, Device::cuda);
    EXPECT_LT(difference<double>(all.values, eigh(a).values), 1e-12) << dim;
    EXPECT_LT(residual(a, all), 1e-10) << dim;
  }
}

TEST_F(OnTheGpu, OnlyTheUpperTriangleIsRead) {
  const Matrix64 a = symmetric_matrix(300);
  Matrix64 half = a;
  for (std::size_t i = 0; i < 300; ++i) std::ranges::fill(half.row(i).first(i), 7.0);
  EXPECT_LT(residual(a, eigh(half, Device::cuda)), 1e-10);
}

TEST_F(OnTheGpu, WhiteningAgrees) {
  const Matrix x = view_of(random_matrix(2000, 5, 1), 300, 2);
  const Moments moments = compute_moments(space_of("x", x));
  const Whitening wanted = make_whitening(moments, {});
  EXPECT_LT(difference(make_whitening(moments, {}, Device::cuda).whitener, wanted.whitener), 1e-10);
}

/// Three sources and a space to be attached, all of one world.
struct World {
  Matrix causes = random_matrix(3000, 6, 1);
  std::vector<Matrix> views{view_of(causes, 130, 10), view_of(causes, 300, 20), view_of(causes, 77, 30),
                            view_of(causes, 290, 40)};
  std::vector<Space> sources{space_of("a", views[0]), space_of("b", views[1]), space_of("c", views[2])};
};

TEST_F(OnTheGpu, ConsensusAndAttachingAgree) {
  const World world;
  FitOptions options;
  options.method = Consensus{};
  options.anchors = 6;
  options.support = 500;
  const Bundle wanted = fit(world.sources, options);
  options.device = Device::cuda;
  const Bundle found = fit(world.sources, options);
  EXPECT_LT(difference(found.anchors().targets, wanted.anchors().targets), 1e-5);
  AttachOptions attach_options;
  const Space fresh = space_of("d", world.views[3]);
  const Attachment plain = attach(wanted, fresh, attach_options);
  attach_options.device = Device::cuda;
  EXPECT_LT(difference(attach(wanted, fresh, attach_options).map->weight(), plain.map->weight()), 1e-5);
}

TEST_F(OnTheGpu, EveryMethodFitsThere) {
  const World world;
  for (const Method& method : std::vector<Method>{ChosenRows{Choice::random}, ChosenRows{Choice::fps}, Consensus{}}) {
    FitOptions options;
    options.method = method;
    options.anchors = 20;
    options.support = 200;
    options.similarity = Similarity::inner;
    const Bundle wanted = fit(world.sources, options);
    options.device = Device::cuda;
    const Bundle found = fit(world.sources, options);
    EXPECT_LT(difference(found.map("b")->weight(), wanted.map("b")->weight()), 1e-4) << to_string(method);
  }
}

Matrix transformed(const RelativeMap& map, const Matrix& x, Device device, Precision precision) {
  const TemporaryFolder folder;
  std::size_t last = 0;
  transform(map, space_of("x", x), folder.file("rr.npy"), {.device = device, .precision = precision},
            [&](const ProgressReport& report) { last = report.done; });
  EXPECT_EQ(last, x.rows());
  return Space("rr", open_rows(folder.file("rr.npy"))).read_all();
}

TEST_F(OnTheGpu, TransformAgrees) {
  const Matrix x = random_matrix(150077, 29, 5);  // several blocks, and an odd rest
  Matrix64 anchors(33, 29);
  std::ranges::copy(random_matrix(33, 29, 6).cells(), anchors.cells().begin());
  const Moments moments = compute_moments(space_of("x", x));
  for (const Similarity similarity : {Similarity::wip, Similarity::inner, Similarity::cosine}) {
    const RelativeMap map = make_relative_map("x", similarity, anchors, moments, {});
    const Matrix wanted = transformed(map, x, Device::cpu, Precision::fp32);
    EXPECT_LT(difference(transformed(map, x, Device::cuda, Precision::fp32), wanted), 1e-6) << to_string(similarity);
    EXPECT_LT(difference(transformed(map, x, Device::cuda, Precision::tf32), wanted), 2e-3) << to_string(similarity);
    EXPECT_LT(difference(transformed(map, x, Device::cuda, Precision::bf16), wanted), 2e-2) << to_string(similarity);
  }
}

TEST_F(OnTheGpu, TransformTakesAnyShape) {
  for (const auto& [rows, dim, outputs] : {std::array<std::size_t, 3>{1, 7, 1}, {1000, 1281, 299}, {1025, 384, 513}}) {
    const Matrix x = random_matrix(rows, dim, 1);
    const RelativeMap map("x", Similarity::inner, random_matrix(outputs, dim, 2), std::vector<float>(outputs, 0.5F),
                          std::vector<float>(dim));
    const Matrix wanted = map.apply(x.view());
    EXPECT_LT(difference(transformed(map, x, Device::cuda, Precision::fp32), wanted), 1e-5) << dim;
    EXPECT_LT(difference(transformed(map, x, Device::cuda, Precision::tf32), wanted), 2e-3) << dim;
  }
}

TEST_F(OnTheGpu, TransformRefusesWhatIsNoProductAndLeavesNothing) {
  const TemporaryFolder folder;
  Matrix x = random_matrix(3000, 4, 5);
  for (const Similarity similarity : {Similarity::euclidean, Similarity::angular, Similarity::manhattan}) {
    const RelativeMap far("vit", similarity, Matrix(3, 4), std::vector<float>(3), std::vector<float>(4));
    expect_error(
        Code::bad_argument, [&] { transform(far, space_of("x", x), folder.file("rr.npy"), {.device = Device::cuda}); },
        "'vit'", std::string(to_string(similarity)), "device = cpu");
  }
  const RelativeMap map("vit", Similarity::wip, Matrix(3, 4), std::vector<float>(3), std::vector<float>(4));
  x.row(2345)[0] = std::nanf("");
  expect_error(
      Code::bad_file, [&] { transform(map, space_of("x", x), folder.file("rr.npy"), {.device = Device::cuda}); },
      "row 2345");
  EXPECT_THAT(folder.files(), ::testing::IsEmpty());
}

TEST_F(OnTheGpu, TranslationAgrees) {
  const World world;
  FitOptions options;
  options.method = Consensus{};
  options.anchors = 6;
  options.support = 500;
  const Translator translator(fit(world.sources, options), "a", "c");
  const TemporaryFolder folder;
  translate(translator, world.sources[0], folder.file("c.npy"), {.device = Device::cuda});
  const Matrix found = Space("c", open_rows(folder.file("c.npy"))).read_all();
  EXPECT_LT(difference(found, translator.apply(world.views[0].view())), 1e-5);
}

Matrix through_worker(const test::KernelCase& c, const Matrix& x, Precision precision) {
  const auto worker = kernel_workers(c.function(), Device::cuda, precision)(x.rows());
  std::ranges::copy(x.cells(), worker->input(x.rows()).data);
  const MatrixView<float> y = worker->apply(x.rows());
  Matrix result(y.rows, y.cols);
  std::ranges::copy(std::span(y.data, y.rows * y.cols), result.cells().begin());
  return result;
}

TEST_F(OnTheGpu, KernelFunctionsAgree) {
  for (const bool projected : {false, true}) {
    for (const std::size_t support : {1U, 700U, 9001U}) {  // the last in several tiles, and an odd rest
      const test::KernelCase c(37, 11, support, 3, projected);
      Matrix x = c.embeddings(1001);
      std::ranges::copy(c.mean, x.row(5).begin());
      Matrix wanted(x.rows(), 11);
      apply_kernel(c.function(), x.view(), wanted.view());
      SCOPED_TRACE(testing::Message() << support << " support rows, projected " << projected);
      EXPECT_LT(difference(through_worker(c, x, Precision::fp32), wanted), 1e-5);
      EXPECT_LT(difference(through_worker(c, x, Precision::tf32), wanted), 2e-2);
      EXPECT_LT(difference(through_worker(c, x, Precision::bf16), wanted), 2e-2);
    }
  }
}

TEST_F(OnTheGpu, KernelFunctionsTakeMoreRowsThanTheyMapAtOnce) {
  const test::KernelCase c(5, 3, 50, 3, true);
  const Matrix x = c.embeddings(20'001);
  Matrix wanted(x.rows(), 3);
  apply_kernel(c.function(), x.view(), wanted.view());
  EXPECT_LT(difference(through_worker(c, x, Precision::fp32), wanted), 1e-5);
}

TEST_F(OnTheGpu, KernelSystemsAgree) {
  for (const std::size_t count : {1U, 2U, 300U, 2500U}) {  // the last in several parts
    Matrix rows = test::unit_rows(count, 40, 1);
    if (count > 2) std::ranges::fill(rows.row(1), 0.0F);
    if (count > 2) std::ranges::copy(rows.row(5), rows.row(200).begin());
    const auto cpu = make_kernel_system(rows.view(), Device::cpu), gpu = make_kernel_system(rows.view(), Device::cuda);
    for (const double width : {1.0, 6.0}) {
      SCOPED_TRACE(testing::Message() << count << " rows, width " << width);
      ASSERT_TRUE(cpu->factor(width, 1e-3));
      ASSERT_TRUE(gpu->factor(width, 1e-3));
      Matrix64 wanted(count, 1100);
      std::ranges::copy(random_matrix(count, 1100, 2).cells(), wanted.cells().begin());
      Matrix64 found = wanted;
      cpu->solve(wanted.view());
      gpu->solve(found.view());
      EXPECT_LT(difference(found, wanted), 1e-8);
      std::vector<std::size_t> positions;
      for (std::size_t i = count / 3; i < count; ++i) positions.push_back(i);
      EXPECT_LT(difference<double>(gpu->inverse_diagonal(positions), cpu->inverse_diagonal(positions)), 1e-8);
    }
  }
}

TEST_F(OnTheGpu, KernelSystemsSayWhereNothingIsLeftToSolve) {
  Matrix rows = test::unit_rows(100, 9, 1);
  std::ranges::copy(rows.row(3), rows.row(70).begin());
  const auto system = make_kernel_system(rows.view(), Device::cuda);
  EXPECT_FALSE(system->factor(1, 0));
  EXPECT_FALSE(system->factor(std::nan(""), 1));
  EXPECT_TRUE(system->factor(1, 1));
}

TEST_F(OnTheGpu, RanksAreTheSame) {
  Matrix a = random_matrix(9001, 40, 1);  // more than one block of queries and of keys
  Matrix b = random_matrix(a.rows(), 40, 2);
  for (std::size_t i = 0; i < b.cells().size(); ++i) b.cells()[i] = a.cells()[i] + 3 * b.cells()[i];
  for (std::size_t r = 100; r < 2000; ++r) std::ranges::copy(b.row(50), b.row(r).begin());  // equal keys
  std::ranges::fill(a.row(7), 0.0F);
  std::ranges::fill(b.row(8), 0.0F);
  const std::vector<std::size_t> wanted = retrieval_ranks(a.view(), b.view());
  EXPECT_GT(*std::ranges::max_element(wanted), 1000U);
  EXPECT_EQ(retrieval_ranks(a.view(), b.view(), Device::cuda), wanted);
  EXPECT_THAT(retrieval_ranks(Matrix(5000, 3).view(), Matrix(5000, 3).view(), Device::cuda), ::testing::Each(1U));
  const Matrix one = random_matrix(1, 3, 1);
  EXPECT_THAT(retrieval_ranks(one.view(), one.view(), Device::cuda), ::testing::ElementsAre(1U));
}

TEST_F(OnTheGpu, ComparingAgrees) {
  const Matrix a = random_matrix(700, 13, 1), b = random_matrix(700, 13, 2);
  CompareOptions options;
  const Comparison wanted = compare(a.view(), b.view(), options);
  options.device = Device::cuda;
  const Comparison found = compare(a.view(), b.view(), options);
  EXPECT_EQ(found.mrr, wanted.mrr);
  EXPECT_EQ(found.recall, wanted.recall);
}

}  // namespace
}  // namespace kedge
