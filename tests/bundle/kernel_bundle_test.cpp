// SPDX-License-Identifier: Apache-2.0
#include "map/encoders.h"

namespace kedge {
namespace {

using test::Encoders;
using test::expect_error;
using test::expect_same;
using test::TemporaryFolder;
using test::with;

std::string version_of(const Bundle& bundle) {
  const std::string bytes = bundle_to_bytes(bundle), key = R"("format_version":")";
  return bytes.substr(bytes.find(key) + key.size(), 1);
}

TEST(KernelBundle, ComesBackAsItWasSaved) {
  const TemporaryFolder folder;
  const Encoders encoders;
  for (const FitOptions& options :
       {with(Adapter{Pairwise::kernel}), with(Consensus{}, AttachBy::automatic), with(Consensus{}, AttachBy::kernel)}) {
    Bundle saved = encoders.fitted(options);
    saved = saved.with(attach(saved, encoders.space("c")));
    save_bundle(saved, folder.file("x.kedge"));
    const Bundle loaded = load_bundle(folder.file("x.kedge"));
    EXPECT_EQ(loaded.made().attach_by, saved.made().attach_by);
    EXPECT_EQ(loaded.made().method, saved.made().method);
    for (const Attachment& space : saved.spaces()) {
      const Attachment again = loaded.space(space.space());
      EXPECT_EQ(again.by.index(), space.by.index());
      expect_same(*again.map, *space.map);
      expect_same(*load_map(folder.file("x.kedge"), space.space()), *space.map);
      ASSERT_EQ(again.kernel() != nullptr, space.kernel() != nullptr);
      if (space.kernel()) {
        EXPECT_EQ(again.kernel()->width, space.kernel()->width);
        EXPECT_EQ(again.kernel()->strength, space.kernel()->strength);
        EXPECT_EQ(again.kernel()->whitening, space.kernel()->whitening);
        EXPECT_EQ(again.kernel()->r2, space.kernel()->r2);
        EXPECT_EQ(again.kernel()->mean_r2, space.kernel()->mean_r2);
        EXPECT_EQ(again.kernel()->error, space.kernel()->error);
      }
      ASSERT_EQ(again.choice() != nullptr, space.choice() != nullptr);
      if (space.choice()) {
        EXPECT_EQ(again.choice()->ridge_error, space.choice()->ridge_error);
        EXPECT_EQ(again.choice()->kernel_error, space.choice()->kernel_error);
      }
      ASSERT_EQ(again.reverse() == nullptr, space.reverse() == nullptr);
      if (space.reverse()) expect_same(*again.reverse(), *space.reverse());
    }
    EXPECT_EQ(bundle_to_bytes(loaded), bundle_to_bytes(saved));
    EXPECT_EQ(version_of(saved), "2");
  }
}

TEST(KernelBundle, IsOfTheFirstFormatWhereItHasNoKernels) {
  const Encoders encoders;
  for (const Method& method :
       std::vector<Method>{Consensus{}, ChosenRows{Choice::random}, Adapter{Pairwise::ridge}, Adapter{Pairwise::cca}}) {
    Bundle bundle = encoders.fitted(with(method));
    EXPECT_EQ(version_of(bundle), "1") << to_string(method);
    AttachOptions options;
    options.by = AttachBy::kernel;
    const Attachment curve = attach(bundle, encoders.space("c"), options);
    options.by = AttachBy::ridge;
    bundle = bundle.with(attach(bundle, encoders.space("c"), options));
    EXPECT_EQ(version_of(bundle), "1") << to_string(method);
    bundle = bundle.with(curve);
    EXPECT_EQ(version_of(bundle), "2") << to_string(method);
  }
}

TEST(KernelBundle, WhatIsSaidOfAKernelAndTheKernelBelongTogether) {
  const Encoders encoders;
  const Bundle bundle = encoders.fitted(with(Adapter{Pairwise::kernel}));
  const auto refuse = [&](const auto& change, auto... words) {
    Attachment space = bundle.space("a");
    change(std::get<ByKernel>(space.by));
    expect_error(
        Code::bad_argument, [&] { (void)bundle.with(space); }, words...);
  };
  Attachment unsaid = bundle.space("a");
  unsaid.by = ByRidge{};
  expect_error(
      Code::bad_argument, [&] { (void)bundle.with(unsaid); }, "'a'", "kernel");
  Attachment straight = bundle.space("b");
  straight.by = ByKernel{};
  expect_error(
      Code::bad_argument, [&] { (void)bundle.with(straight); }, "'b'", "kernel");
  refuse([](ByKernel& by) { by.fit.r2.pop_back(); }, "a.r2");
  refuse([](ByKernel& by) { by.fit.width = 3.21; }, "width");
  refuse([](ByKernel& by) { by.fit.error = -1; }, "error");
  refuse([](ByKernel& by) { by.choice = AttachChoice{-1, 0}; }, "error");
  refuse([](ByKernel& by) { by.choice = AttachChoice{0.1, 0.2}; }, "'a'", "by kernel", "0.1 for ridge and 0.2");
  refuse([&](ByKernel& by) { by.reverse = bundle.map("b"); }, "way back");
  refuse([&](ByKernel& by) { by.reverse = bundle.map("a"); }, "way back");
  const Bundle lines = encoders.fitted(with(Consensus{}, AttachBy::ridge));
  Attachment line = lines.space("a");
  std::get<ByRidge>(line.by).choice = AttachChoice{0.2, 0.1};
  expect_error(
      Code::bad_argument, [&] { (void)lines.with(line); }, "'a'", "by ridge", "0.2 for ridge and 0.1");
}

}  // namespace
}  // namespace kedge
