// SPDX-License-Identifier: Apache-2.0
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
      Code::failed, [] { require_device(Device::cuda); }, "--device cpu");
}

TEST(Device, NamesAreKnown) {
  EXPECT_EQ(parse_device("cuda"), Device::cuda);
  expect_error(
      Code::bad_argument, [] { (void)parse_device("tpu"); }, "unknown device 'tpu'", "cpu, cuda");
}

TEST(Threads, CanBeSetAndAreNeverZero) {
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
