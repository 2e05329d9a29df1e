// SPDX-License-Identifier: Apache-2.0
// Every operation of every backend against the plain loops, and what backends promise about running them.
#include "compute/devices.h"
#include "compute/operation_cases.h"
#include "compute/reference_backend.h"
#include "compute/sequence.h"
#include "support.h"

#include <fmt/format.h>

#include <limits>
#include <ostream>
#include <tuple>

namespace kedge {
namespace test {

/// CTest shows it beside the test's name.
void PrintTo(const OperationCase& operation, std::ostream* out) {
  *out << operation.name;
}

}  // namespace test
namespace {

using test::kCpu;
using test::kCudaBf16;
using test::kCudaFp32;
using test::kCudaTf32;
using test::OperationCase;
using test::Place;
using test::same_bits;
using test::Sequence;
using test::Sizes;

class EveryOperation : public ::testing::TestWithParam<std::tuple<Place, OperationCase>> {
 protected:
  void SetUp() override {
    if (const auto why = test::missing(std::get<0>(GetParam()))) GTEST_SKIP() << *why;
  }
};

TEST_P(EveryOperation, AgreesWithThePlainLoop) {
  const auto& [place, operation] = GetParam();
  const auto reference = test::make_reference_backend();
  const auto backend = make_backend(place.device, place.precision);
  for (const Sizes sizes : {Sizes{1, 1, 7, 33}, Sizes{5, 9, 3, 33}, Sizes{131, 65, 40, 70}, Sizes{200, 300, 17, 513}}) {
    for (const test::Layout layout : {test::kPacked, test::kLoose}) {
      const auto [error, buffer] =
          largest_difference(run_case(operation, *backend, sizes, layout),
                             run_case(operation, *reference, sizes, layout), typical_value(operation, sizes));
      EXPECT_LT(error, operation.rounds ? place.tolerance : kCpu.tolerance)
          << buffer << " at " << describe(sizes, operation.sizes)
          << (layout.after == 0 ? ", packed" : ", in wider rows");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryOperation,
                         ::testing::Combine(::testing::Values(kCpu, kCudaFp32, kCudaTf32, kCudaBf16),
                                            ::testing::ValuesIn(test::operation_cases())),
                         [](const auto& each) {
                           return fmt::format("{}_{}", name_of(std::get<0>(each.param)), std::get<1>(each.param).name);
                         });

class EveryBackend : public ::testing::TestWithParam<Place> {
 protected:
  void SetUp() override {
    if (const auto why = test::missing(GetParam())) GTEST_SKIP() << *why;
    backend_ = make_backend(GetParam().device, GetParam().precision);
  }
  [[nodiscard]] std::vector<Matrix> direct(std::size_t steps, Sequence::Parts parts = Sequence::Parts::side_by_side) {
    Sequence sequence(*backend_, parts);
    for (std::size_t i = 0; i < steps; ++i) sequence.step();
    return sequence.read();
  }
  std::unique_ptr<Backend> backend_;
};

TEST_P(EveryBackend, GivesTheSameBitsTwice) {
  EXPECT_TRUE(same_bits(direct(3), direct(3)));
  EXPECT_FALSE(same_bits(direct(3), direct(2)));
}

TEST_P(EveryBackend, SideBySideIsAsOneAfterTheOther) {
  EXPECT_TRUE(same_bits(direct(3), direct(3, Sequence::Parts::one_after_the_other)));
}

TEST_P(EveryBackend, ARecordingDoesWhatWasRecordedAsOftenAsAsked) {
  for (const auto parts : {Sequence::Parts::side_by_side, Sequence::Parts::one_after_the_other}) {
    Sequence sequence(*backend_, parts);
    const auto before = sequence.read();
    const auto recording = backend_->record([&] { sequence.step(); });
    EXPECT_TRUE(same_bits(sequence.read(), before)) << "recording is not running";
    recording->run(1);
    EXPECT_TRUE(same_bits(sequence.read(), direct(1, parts)));
    recording->run(2);
    EXPECT_TRUE(same_bits(sequence.read(), direct(3, parts)));
    recording->run(20);
    EXPECT_TRUE(same_bits(sequence.read(), direct(23, parts)));
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryBackend, ::testing::Values(kCpu, kCudaFp32, kCudaTf32, kCudaBf16),
                         [](const auto& each) { return name_of(each.param); });

TEST(OperationCases, SayWhatIsWrong) {
  const auto wrong = [](const Matrix& found, const Matrix& wanted) {
    return test::largest_difference({{"x", {found, 4}}}, {{"x", {wanted, 4}}}).error;
  };
  Matrix a(1, 2);
  Matrix b(1, 2);
  EXPECT_EQ(wrong(a, b), 0);
  b.cells()[1] = 1;
  EXPECT_EQ(wrong(b, a), 0.25);  // zeros are wanted: relative to what was there before
  EXPECT_EQ(wrong(a, b), 1);
  a.cells()[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_FALSE(wrong(a, b) < 1e30);
}

TEST(OperationCases, NoticeWhatIsWrittenBeside) {
  const auto cpu = make_cpu_backend();
  test::Buffers buffers(*cpu, test::kLoose);
  buffers("x", 3, 4).data[4] = 1;
  test::expect_error(
      Code::failed, [&] { (void)buffers.read(); }, "beside 'x'");
}

}  // namespace
}  // namespace kedge
