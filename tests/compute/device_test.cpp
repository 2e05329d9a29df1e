// SPDX-License-Identifier: Apache-2.0
#include "compute/backend.h"
#include "support.h"

namespace kedge {
namespace {

using test::expect_error;

TEST(Device, TheProcessorIsAlwaysThere) {
  EXPECT_EQ(devices().front().kind, Device::cpu);
  EXPECT_GT(devices().front().memory_bytes, 0U);
  EXPECT_NO_THROW(require_device(Device::cpu));
}

TEST(Device, WithoutAGpuTheSentenceSaysWhatToDo) {
  if (devices().size() > 1) GTEST_SKIP() << "this machine has a GPU";
  expect_error(
      Code::failed, [] { require_device(Device::cuda); }, "device = cpu");
}

TEST(Device, NamesAreKnown) {
  EXPECT_EQ(parse_device("cuda"), Device::cuda);
  expect_error(
      Code::bad_argument, [] { (void)parse_device("tpu"); }, "unknown device 'tpu'", "cpu, cuda");
}

TEST(Device, PrecisionsAreKnown) {
  EXPECT_THAT(precision_names(), ::testing::ElementsAre("fp32", "tf32", "bf16"));
  for (const std::string_view name : precision_names()) EXPECT_EQ(to_string(parse_precision(name)), name);
  expect_error(
      Code::bad_argument, [] { (void)parse_precision("fp8"); }, "'fp8'", "fp32, tf32, bf16");
}

TEST(Device, TheProcessorLearnsInFloat32Alone) {
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    EXPECT_NO_THROW(require_precision(Device::cpu, precision));
  }
  EXPECT_NO_THROW(require_precision(Device::cuda, Precision::bf16));
  expect_error(
      Code::bad_argument, [] { (void)make_backend(Device::cpu, Precision::bf16); }, "bf16", "GPU", "fp32");
}

TEST(Device, WithoutAGpuEverythingThatWouldUseItSaysSo) {
  if (devices().size() > 1) GTEST_SKIP() << "this machine has a GPU";
  const test::TemporaryFolder folder;
  const Matrix x = test::random_matrix(300, 4, 1);
  const std::vector<Space> spaces{test::space_of("x", x)};
  FitOptions options;
  options.method = ChosenRows{Choice::random};
  options.anchors = 3;
  const Bundle bundle = fit(spaces, options);
  options.device = Device::cuda;
  AttachOptions attach_options;
  attach_options.device = Device::cuda;
  CompareOptions compare_options;
  compare_options.device = Device::cuda;
  const auto expect_sentence = [](const auto& work) { expect_error(Code::failed, work, "device = cpu"); };
  expect_sentence([&] { (void)compute_moments(spaces[0], Device::cuda); });
  expect_sentence([&] { (void)fit(spaces, options); });
  expect_sentence([&] { (void)attach(bundle, spaces[0], attach_options); });
  expect_sentence([&] { (void)compare(x.view(), x.view(), compare_options); });
  expect_sentence([&] { transform(*bundle.map("x"), spaces[0], folder.file("rr.npy"), {.device = Device::cuda}); });
  expect_sentence(
      [&] { translate(Translator(bundle, "x", "x"), spaces[0], folder.file("x.npy"), {.device = Device::cuda}); });
  EXPECT_THAT(folder.files(), ::testing::IsEmpty());
}

TEST(Device, ThreadsCanBeSetAndAreNeverZero) {
  const unsigned before = threads();
  EXPECT_GE(before, 1U);
  set_threads(3);
  EXPECT_EQ(threads(), 3U);
  set_threads(before);
  expect_error(
      Code::bad_argument, [] { set_threads(0); }, "threads is 0");
}

}  // namespace
}  // namespace kedge
