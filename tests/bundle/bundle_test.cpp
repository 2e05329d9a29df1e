// SPDX-License-Identifier: Apache-2.0
#include "io/byte_source.h"
#include "io/safetensors.h"
#include "support.h"

#include <fmt/format.h>

#include <algorithm>

namespace kedge {
namespace {

using test::expect_error;
using test::random_matrix;
using test::space_of;
using test::TemporaryFolder;

Bundle small_bundle() {
  static const Matrix a = random_matrix(60, 5, 1);
  static const Matrix b = random_matrix(60, 4, 2);
  FitOptions options;
  options.method = ChosenRows{Choice::fps};
  options.anchors = 6;
  options.support = 20;
  options.seed = 18446744073709551615ULL;
  options.whitening.shrinkage = 0.1 + 0.2;  // not short in decimal
  return fit(std::vector{space_of("vit.base", a), space_of("b", b)}, options);
}

TEST(Bundle, ComesBackAsItWasSaved) {
  const TemporaryFolder folder;
  const Bundle bundle = small_bundle();
  save_bundle(bundle, folder.file("x.kedge"));
  const Bundle loaded = load_bundle(folder.file("x.kedge"));
  EXPECT_EQ(loaded.method, bundle.method);
  EXPECT_EQ(loaded.similarity, bundle.similarity);
  EXPECT_EQ(loaded.whitening.shrinkage, bundle.whitening.shrinkage);
  EXPECT_EQ(loaded.whitening.epsilon, bundle.whitening.epsilon);
  EXPECT_EQ(loaded.seed, bundle.seed);
  EXPECT_EQ(loaded.rows.end, 60U);
  EXPECT_EQ(loaded.kedge_version, version());
  EXPECT_EQ(loaded.support_ids, bundle.support_ids);
  EXPECT_EQ(loaded.sources, bundle.sources);
  EXPECT_TRUE(std::ranges::equal(loaded.mixture.cells(), bundle.mixture.cells()));
  ASSERT_EQ(loaded.spaces.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(loaded.spaces[i].map->space(), bundle.spaces[i].map->space());
    EXPECT_TRUE(std::ranges::equal(loaded.spaces[i].map->weight().cells(), bundle.spaces[i].map->weight().cells()));
    EXPECT_EQ(loaded.spaces[i].map->bias(), bundle.spaces[i].map->bias());
    EXPECT_EQ(loaded.spaces[i].map->mean(), bundle.spaces[i].map->mean());
  }
}

TEST(Bundle, UnknownSpacesAreAnsweredWithTheKnown) {
  expect_error(
      Code::bad_argument, [] { (void)small_bundle().map("clip"); }, "no space 'clip'", "vit.base, b",
      "attach a new one first");
}

Attachment space_of_width(const std::string& name, std::size_t dim, std::size_t anchors = 6) {
  return {std::make_shared<RelativeMap>(name, Similarity::wip, Matrix(anchors, dim), std::vector<float>(anchors),
                                        std::vector<float>(dim)),
          AttachBy::mixture, 0.15};
}

TEST(Bundle, MapsOutliveWhateverIsAdded) {
  Bundle bundle = small_bundle();
  const std::shared_ptr<const RelativeMap> before = bundle.map("b");
  const Attachment space = bundle.space("b");
  const Matrix weight = before->weight();
  for (char name = 'c'; name <= 'z'; ++name) bundle.add(space_of_width(std::string(1, name), 9));
  bundle.add(space_of_width("b", 9));
  EXPECT_TRUE(std::ranges::equal(before->weight().cells(), weight.cells()));
  EXPECT_EQ(space.map, before);
  EXPECT_NE(bundle.map("b"), before);
}

TEST(Bundle, AddRefusesWhatSaveAndLoadRefuse) {
  Bundle bundle = small_bundle();
  const auto refused = [&](const Attachment& space, const char* words) {
    expect_error(
        Code::bad_argument, [&] { bundle.add(space); }, words);
    Bundle other = small_bundle();
    other.spaces.push_back(space);
    expect_error(
        Code::bad_argument, [&] { (void)bundle_to_bytes(other); }, words);
  };
  refused(space_of_width("c", 9, 5), "6 anchors, but the map of 'c' has 5");
  refused({}, "without a map");
  refused(space_of_width("a=b", 9), "cannot be used");
  Attachment other = space_of_width("c", 9);
  other.shrinkage = 2;
  refused(other, "shrinkage is 2");
  other = space_of_width("c", 9);
  other.decoder = std::make_shared<Decoder>(Decoder{Matrix(8, 6), std::vector<float>(9), {}});
  refused(other, "decoder of 'c'");
  other = space_of_width("c", 9);
  other.mixture = MixtureFit{std::vector<float>(3), 0};
  refused(other, "value per anchor");
  Matrix infinite(6, 9);
  infinite.row(0)[0] = std::numeric_limits<float>::infinity();
  other.mixture = {};
  other.map =
      std::make_shared<RelativeMap>("c", Similarity::wip, infinite, std::vector<float>(6), std::vector<float>(9));
  refused(other, "NaN or infinity");
  other.map = std::make_shared<RelativeMap>("c", Similarity::cosine, Matrix(6, 9), std::vector<float>(6),
                                            std::vector<float>(9));
  refused(other, "similarity is wip");
  EXPECT_EQ(bundle.spaces.size(), 2U);
}

TEST(Bundle, KeepsEverySettingOfTheConsensus) {
  Bundle bundle = small_bundle();
  const Consensus made{0.25, {7, 0.02, 0.06, 77, 3}};
  bundle.method = made;
  EXPECT_EQ(bundle_from_bytes(bundle_to_bytes(bundle), "bytes").method, Method(made));
}

TEST(Bundle, OneMapIsReadAlone) {
  const Bundle bundle = small_bundle();
  const TemporaryFolder folder;
  save_bundle(bundle, folder.file("x.kedge"));
  const std::shared_ptr<const RelativeMap> map = load_map(folder.file("x.kedge"), "b");
  EXPECT_EQ(map->space(), "b");
  EXPECT_EQ(map->similarity(), bundle.similarity);
  EXPECT_TRUE(std::ranges::equal(map->weight().cells(), bundle.map("b")->weight().cells()));
  EXPECT_EQ(map->bias(), bundle.map("b")->bias());
  EXPECT_EQ(map->mean(), bundle.map("b")->mean());
  expect_error(
      Code::bad_argument, [&] { (void)load_map(folder.file("x.kedge"), "clip"); }, "no space 'clip'", "vit.base, b");
  // What belongs to others may be damaged: no byte of it is looked at.
  std::string bytes = test::read_file(folder.file("x.kedge"));
  const auto mixture = std::as_bytes(bundle.mixture.cells());
  const auto at = bytes.find(std::string_view(reinterpret_cast<const char*>(mixture.data()), mixture.size()));
  ASSERT_NE(at, std::string::npos);
  std::fill_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), mixture.size(), '\xff');
  test::write_file(folder.file("y.kedge"), bytes);
  EXPECT_NO_THROW((void)load_map(folder.file("y.kedge"), "b"));
  expect_error(
      Code::bad_file, [&] { (void)load_bundle(folder.file("y.kedge")); }, "NaN");
}

TEST(Bundle, AddReplacesASpaceOfTheSameName) {
  Bundle bundle = small_bundle();
  bundle.add(space_of_width("b", 9));
  EXPECT_EQ(bundle.spaces.size(), 2U);
  EXPECT_EQ(bundle.map("b")->input_dim(), 9U);
  bundle.add(space_of_width("c", 9));
  EXPECT_EQ(bundle.spaces.size(), 3U);
}

TEST(Bundle, AFullDiskKeepsTheOldFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.kedge");
  save_bundle(small_bundle(), path);
  const std::string before = test::read_file(path);
  expect_error(
      Code::failed, [] { save_bundle(small_bundle(), "/dev/full"); }, "/dev/full", "No space left", "free some space");
  expect_error(
      Code::failed, [&] { save_bundle(small_bundle(), folder.file("no/such/folder.kedge")); },
      "create the folder first");
  EXPECT_EQ(test::read_file(path), before);
  EXPECT_THAT(folder.files(), ::testing::ElementsAre("x.kedge"));
}

TEST(Bundle, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  save_bundle(small_bundle(), folder.file("x.kedge"));
  const std::string whole = test::read_file(folder.file("x.kedge"));
  for (std::size_t size = 0; size < whole.size(); size += size < 200 ? 1 : 97) {
    test::write_file(folder.file("cut.kedge"), std::string_view(whole).substr(0, size));
    EXPECT_THROW((void)load_bundle(folder.file("cut.kedge")), Error) << size;
  }
}

TEST(Bundle, IsTheSameBytesInMemoryAsInAFile) {
  const TemporaryFolder folder;
  const Bundle bundle = small_bundle();
  save_bundle(bundle, folder.file("x.kedge"));
  const std::string bytes = bundle_to_bytes(bundle);
  EXPECT_EQ(bytes, test::read_file(folder.file("x.kedge")));
  const std::string unaligned = "." + bytes;
  EXPECT_EQ(bundle_to_bytes(bundle_from_bytes(std::string_view(unaligned).substr(1), "memory")), bytes);
}

TEST(Bundle, BytesInMemoryAreTrustedNoMoreThanAFile) {
  const std::string whole = bundle_to_bytes(small_bundle());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    const auto load = [&] { (void)bundle_from_bytes({cut.data(), cut.size()}, "memory"); };
    ASSERT_NO_FATAL_FAILURE(expect_error(Code::bad_file, load, "memory: ")) << size;
  }
  std::string damaged = whole;
  damaged.replace(damaged.find("fps"), 3, "fpx");
  for (const char* label : {"memory", "", "unknown"}) {  // the last begins the sentence itself
    expect_error(
        Code::bad_file, [&] { (void)bundle_from_bytes(damaged, label); }, label + std::string(": unknown method"));
  }
}

/// Writes a bundle again with something changed, as a damaged or hostile file would have it.
void expect_refused(
    const std::function<void(std::vector<io::TensorBytes>&, std::map<std::string, std::string>&)>& change,
    const char* words) {
  const TemporaryFolder folder;
  const std::string bytes = bundle_to_bytes(small_bundle());
  const auto file = std::as_bytes(std::span(bytes));
  io::SafetensorsInfo info = io::parse_safetensors(io::MemoryBytes(file, "good"));
  std::vector<io::TensorBytes> tensors;
  for (const auto& [name, array] : info.tensors) {
    tensors.push_back({name, array.dtype, array.shape, file.subspan(array.offset, array.bytes)});
  }
  change(tensors, info.metadata);
  io::save_safetensors(folder.file("bad.kedge"), tensors, info.metadata);
  expect_error(
      Code::bad_file, [&] { (void)load_bundle(folder.file("bad.kedge")); }, "bad.kedge", words);
}

TEST(Bundle, InconsistentPartsAreRefused) {
  using Tensors = std::vector<io::TensorBytes>;
  using Metadata = std::map<std::string, std::string>;
  const auto find = [](Tensors& tensors, const char* name) {
    return std::ranges::find_if(tensors, [&](const auto& t) { return t.name == name; });
  };
  expect_refused([](Tensors&, Metadata& m) { m["format_version"] = "3"; }, "use a newer kedge");
  expect_refused(
      [](Tensors&, Metadata& m) {
        m["format_version"] = "3";
        m["kedge_version"] = "9.8.7";
      },
      "written by kedge 9.8.7: use that or a newer one");
  expect_refused([](Tensors&, Metadata& m) { m["kedge_version"] = "9 8"; }, "not a version of kedge");
  expect_refused([](Tensors&, Metadata& m) { m["attached"] = std::string(100'000, '['); }, "nested too deeply");
  const auto with_rows = [](Metadata& m, const char* rows) {
    const std::string written = R"("rows":[0,60])";
    m["options"].replace(m["options"].find(written), written.size(), fmt::format(R"("rows":{})", rows));
  };
  expect_refused([&](Tensors&, Metadata& m) { with_rows(m, "[0,10]"); }, "not among the rows 0:10");
  expect_refused([&](Tensors&, Metadata& m) { with_rows(m, "[60,0]"); }, "which is an empty range");
  expect_refused([](Tensors&, Metadata& m) { m.erase("format"); }, "not a bundle");
  expect_refused([](Tensors&, Metadata& m) { m.erase("seed"); }, "lacks 'seed'");
  expect_refused([](Tensors&, Metadata& m) { m["options"] = "{"; }, "metadata is damaged");
  const auto with_keep = [](Metadata& m, const std::string& value) {
    const std::string written = R"("keep":0)";
    m["options"].replace(m["options"].find(written), written.size(), R"("keep":)" + value);
  };
  expect_refused([&](Tensors&, Metadata& m) { with_keep(m, "-1"); }, "other than a whole number where one belongs");
  expect_refused([&](Tensors&, Metadata& m) { with_keep(m, R"("few")"); },
                 "other than a whole number where one belongs");
  expect_refused(
      [](Tensors&, Metadata& m) {
        const std::string written = R"("support_select":"random")";
        m["options"].replace(m["options"].find(written), written.size(), R"("support_select":"magic")");
      },
      "'magic'");
  expect_refused([](Tensors&, Metadata& m) { m["method"] = "magic"; }, "unknown method 'magic'");
  expect_refused([](Tensors&, Metadata& m) { m["spaces"] = R"(["b","b"])"; }, "twice");
  expect_refused([](Tensors&, Metadata& m) { m["spaces"] = R"(["c"])"; }, "metadata is damaged");
  expect_refused([&](Tensors& t, Metadata&) { t.erase(find(t, "mixture")); }, "no tensor 'mixture'");
  expect_refused([&](Tensors& t, Metadata&) { std::ranges::reverse(find(t, "b.weight")->shape); },
                 "do not fit together");
  expect_refused([&](Tensors& t, Metadata&) { find(t, "mixture")->shape = {20, 6}; }, "support rows");
  expect_refused([&](Tensors& t, Metadata&) { find(t, "targets")->shape = {6, 20}; }, "its targets are 6 x 20");
  expect_refused([&](Tensors& t, Metadata&) { std::ranges::reverse(find(t, "b.decode_weight")->shape); },
                 "decoder of 'b' does not fit");
  expect_refused([&](Tensors& t, Metadata&) { t.erase(find(t, "b.decode_bias")); }, "no tensor 'b.decode_bias'");
  expect_refused([](Tensors&, Metadata& m) { m["attached"] = R"({"b":{"by":"glue"}})"; }, "damaged");
  expect_refused([&](Tensors& t, Metadata&) { find(t, "support_ids")->shape = {4, 5}; }, "should have 1 dimension");
}

TEST(Export, SafetensorsHoldsWhatALinearLayerNeeds) {
  const TemporaryFolder folder;
  const Bundle bundle = small_bundle();
  export_safetensors(*bundle.map("b"), folder.file("b.safetensors"));
  const Matrix weight = Space("w", open_rows(folder.file("b.safetensors#weight"))).read_all();
  EXPECT_TRUE(std::ranges::equal(weight.cells(), bundle.map("b")->weight().cells()));
  EXPECT_EQ(io::parse_safetensors(io::InputFile(folder.file("b.safetensors"))).tensors.size(), 2U);
}

TEST(Export, NpyWritesOneFilePerPart) {
  const TemporaryFolder folder;
  const Bundle bundle = small_bundle();
  const auto paths = export_npy(*bundle.map("b"), folder.file("b.npy"));
  EXPECT_THAT(folder.files(), ::testing::UnorderedElementsAre("b.weight.npy", "b.bias.npy", "b.mean.npy"));
  const Matrix weight = Space("w", open_rows(paths[0])).read_all();
  EXPECT_TRUE(std::ranges::equal(weight.cells(), bundle.map("b")->weight().cells()));
  expect_error(
      Code::bad_argument, [&] { export_npy(*bundle.map("b"), folder.file("b")); }, "ends in .npy");
}

TEST(Export, OnnxIsWrittenWholeOrNotAtAll) {
  const TemporaryFolder folder;
  const Bundle bundle = small_bundle();
  export_onnx(*bundle.map("b"), folder.file("b.onnx"));
  const std::string model = test::read_file(folder.file("b.onnx"));
  EXPECT_THAT(model, ::testing::HasSubstr("kedge map"));
  const auto weight = std::as_bytes(bundle.map("b")->weight().cells());
  EXPECT_NE(model.find({reinterpret_cast<const char*>(weight.data()), weight.size()}), std::string::npos);
  expect_error(
      Code::failed, [&] { export_onnx(*bundle.map("b"), "/dev/full"); }, "No space left");
  expect_error(
      Code::failed, [&] { export_onnx(*bundle.map("b"), folder.file("no/b.onnx")); }, "create the folder first");
  EXPECT_THAT(folder.files(), ::testing::ElementsAre("b.onnx"));
}

}  // namespace
}  // namespace kedge
