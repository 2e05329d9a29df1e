// SPDX-License-Identifier: Apache-2.0
#include "files.h"
#include "io/byte_source.h"
#include "io/safetensors.h"

#include <cstdint>

namespace kedge::io {
namespace {

using test::bytes_of;
using test::expect_error;
using test::packed;
using test::safetensors_file;
using test::TemporaryFolder;
using ::testing::ElementsAre;

const std::string kGood =
    safetensors_file(R"({"__metadata__":{"made":"by hand"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
                     R"("b":{"dtype":"I64","shape":[2],"data_offsets":[24,40]}})",
                     packed({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}) + packed({7L, -8L}));

SafetensorsInfo parse(const std::string& file) {
  return parse_safetensors(MemoryBytes(bytes_of(file), "x.safetensors"));
}

void expect_refused(const std::string& header, const std::string& word,
                    const std::string& values = std::string(8, '\0')) {
  SCOPED_TRACE(header.substr(0, 200));
  expect_error(
      Code::bad_file, [&] { (void)parse(safetensors_file(header, values)); }, "x.safetensors", word);
}

/// A header of one tensor, and eight bytes for it.
std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"t":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const SafetensorsInfo info = parse(kGood);
  ASSERT_EQ(info.tensors.size(), 2U);
  const ArrayInfo& a = info.tensor("a", "x");
  EXPECT_EQ(a.dtype, DType::f32);
  EXPECT_THAT(a.shape, ElementsAre(2, 3));
  EXPECT_EQ(a.offset, kGood.size() - 40);
  EXPECT_EQ(a.bytes, 24U);
  EXPECT_FALSE(a.fortran_order);
  EXPECT_EQ(info.tensor("b", "x").offset, kGood.size() - 16);
  EXPECT_EQ(info.metadata.at("made"), "by hand");
}

TEST(Safetensors, KnowsEveryTypeOfTheFormat) {
  const std::pair<const char*, DType> types[] = {{"F16", DType::f16}, {"BF16", DType::bf16}, {"F32", DType::f32},
                                                 {"F64", DType::f64}, {"I32", DType::i32},   {"I64", DType::i64},
                                                 {"BOOL", DType::u8}, {"U8", DType::u8},     {"U64", DType::u64}};
  for (const auto& [name, dtype] : types) {
    const SafetensorsInfo info = parse(safetensors_file(tensor(name, "[0]", "[0,0]"), ""));
    EXPECT_EQ(info.tensor("t", "x").dtype, dtype) << name;
  }
}

TEST(Safetensors, TakesScalarsEmptyTensorsAndPaddedHeaders) {
  EXPECT_THAT(parse(safetensors_file(tensor("F64", "[]", "[0,8]"), packed({1.0}))).tensor("t", "x").shape,
              ElementsAre());
  EXPECT_THAT(parse(safetensors_file(tensor("F64", "[0,4]", "[0,0]") + "   ", "")).tensor("t", "x").shape,
              ElementsAre(0, 4));
  EXPECT_TRUE(parse(safetensors_file("{}", "")).tensors.empty());
  EXPECT_TRUE(parse(safetensors_file(R"({"__metadata__":{}})", "")).metadata.empty());
}

TEST(Safetensors, TakesTensorsInAnyOrderOfTheirBytes) {
  const SafetensorsInfo info = parse(safetensors_file(R"({"late":{"dtype":"F32","shape":[1],"data_offsets":[4,8]},)"
                                                      R"("none":{"dtype":"F32","shape":[0],"data_offsets":[4,4]},)"
                                                      R"("early":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                                                      packed({1.0F, 2.0F})));
  EXPECT_LT(info.tensor("early", "x").offset, info.tensor("late", "x").offset);
}

TEST(Safetensors, ListsTheTensorsThereAre) {
  expect_error(
      Code::bad_file, [] { (void)parse(kGood).tensor("c", "x.safetensors"); }, "x.safetensors", "'c'", "a, b");
}

TEST(Safetensors, RefusesEveryPrefixOfAGoodFile) {
  for (std::size_t size = 0; size < kGood.size(); ++size) {
    SCOPED_TRACE(size);
    expect_error(
        Code::bad_file, [&] { (void)parse(kGood.substr(0, size)); }, "x.safetensors");
  }
}

TEST(Safetensors, RefusesAHeaderLengthThatLies) {
  const auto with_length = [](std::uint64_t length) { return packed({length}) + kGood.substr(8); };
  const auto refuse = [&](std::uint64_t length, const char* word) {
    SCOPED_TRACE(length);
    expect_error(
        Code::bad_file, [&] { (void)parse(with_length(length)); }, word);
  };
  refuse(0, "not valid JSON");
  refuse(1, "not valid JSON");
  refuse(kGood.size() - 7, "claims");
  refuse(100'000'001, "claims 100000001 bytes");
  refuse(UINT64_MAX, "claims 18446744073709551615 bytes");
  refuse(UINT64_MAX - 7, "claims");
  refuse(std::uint64_t{1} << 63, "claims");
}

TEST(Safetensors, RefusesAHeaderOverTheFormatsLimitEvenInALargeFile) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  test::write_file(path, packed<std::uint64_t>({100'000'001}));
  std::filesystem::resize_file(path, 200'000'000);  // a hole, not on the disk
  const InputFile file(path);
  expect_error(
      Code::bad_file, [&] { (void)parse_safetensors(file); }, "100000001", "at most 100000000");
}

TEST(Safetensors, RefusesWhatIsNotJson) {
  for (const char* header : {"", "{", "}", "{]", "{'a':1}", "{\"a\"}", "{\"a\":}", "{} {}", "{}x", "nul", "{\"a\":NaN}",
                             "{\"a\":01}", "{\"\xff\":1}", "{\"\\ud800\":1}", "{\"a\":\"\n\"}", "{,}", "{\"a\":{},}"}) {
    expect_refused(header, "not valid JSON");
  }
  expect_refused(std::string(64, '\0'), "not valid JSON");
}

TEST(Safetensors, RefusesWhatIsNotADictionary) {
  for (const char* header : {"[]", "1", "null", "\"text\"", "true", "[{}]"}) expect_refused(header, "not a dictionary");
}

TEST(Safetensors, RefusesDeepNestingBeforeItCosts) {
  expect_refused(std::string(100'000, '['), "nested too deeply");
  expect_refused(std::string(100'000, '[') + std::string(100'000, ']'), "nested too deeply");
  std::string dictionaries;
  for (int i = 0; i < 100'000; ++i) dictionaries += "{\"a\":";
  expect_refused(dictionaries, "nested too deeply");
  expect_refused(R"({"t":{"shape":[{}]}})", "nested too deeply");
}

TEST(Safetensors, ReadsManyTensors) {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i) {
    header += "\"layer." + std::to_string(i) + R"(":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)";
  }
  header.back() = '}';
  EXPECT_EQ(parse(safetensors_file(header, "")).tensors.size(), 100'000U);
}

TEST(Safetensors, RefusesRepeatedNames) {
  const std::string t = R"("t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect_refused("{" + t + "," + t + "}", "'t' twice");
  expect_refused("{" + t + R"(,"\u0074":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", "'t' twice");
  expect_refused(R"({"__metadata__":{},"__metadata__":{}})", "'__metadata__' twice");
  expect_refused(R"({"__metadata__":{"format":"pt","format":"np"}})", "'format' twice");
  expect_refused(R"({"t":{"dtype":"F32","dtype":"F64","shape":[1],"data_offsets":[0,8]}})", "'dtype' twice");
}

TEST(Safetensors, TakesTheSameWordInDifferentDictionaries) {
  EXPECT_EQ(parse(safetensors_file(R"({"__metadata__":{"dtype":"x","__metadata__":"y"},)"
                                   R"("dtype":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},)"
                                   R"("shape":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})",
                                   ""))
                .tensors.size(),
            2U);
}

TEST(Safetensors, RefusesAnIncompleteTensor) {
  for (const char* entry :
       {"1", "null", "[]", "{}", R"({"dtype":"F32"})", R"({"dtype":"F32","shape":[2]})",
        R"({"shape":[2],"data_offsets":[0,8]})", R"({"dtype":"F32","data_offsets":[0,8]})",
        R"({"dtype":1,"shape":[2],"data_offsets":[0,8]})", R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})",
        R"({"dtype":"F32","shape":{},"data_offsets":[0,8]})", R"({"dtype":"F32","shape":[2],"data_offsets":8})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[]})", R"({"dtype":"F32","shape":[2],"data_offsets":[8]})",
        R"({"dtype":"F32","shape":[2],"data_offsets":[0,4,8]})"}) {
    expect_refused(std::string(R"({"t":)") + entry + "}", "'t' without a proper dtype, shape and data_offsets");
  }
}

TEST(Safetensors, RefusesUnknownTypes) {
  for (const char* dtype : {"", "f32", "F31", "FLOAT", "F320"})
    expect_refused(tensor(dtype, "[2]", "[0,8]"), "unknown type");
}

TEST(Safetensors, RefusesSizesAndOffsetsThatAreNotWholeNumbers) {
  for (const char* number : {"-1", "-0", "2.0", "1e0", "\"2\"", "null", "true", "18446744073709551616", "1e400"}) {
    const std::string bad = number;
    const char* word = bad == "1e400" ? "not valid JSON" : "not a whole number";
    expect_refused(tensor("F32", "[" + bad + "]", "[0,8]"), word);
    expect_refused(tensor("F32", "[2]", "[" + bad + ",8]"), word);
    expect_refused(tensor("F32", "[2]", "[0," + bad + "]"), word);
  }
}

TEST(Safetensors, RefusesAShapeWhoseProductOverflows) {
  for (const char* shape : {"[18446744073709551615]", "[4611686018427387904]", "[4294967296,4294967296]",
                            "[18446744073709551615,18446744073709551615]"}) {
    expect_refused(tensor("F32", shape, "[0,8]"), "impossible shape");
  }
}

TEST(Safetensors, RefusesOffsetsThatLie) {
  expect_refused(tensor("F32", "[2]", "[8,0]"), "bytes 8 to 0");
  expect_refused(tensor("F32", "[2]", "[0,9]"), "only 8 follow");
  expect_refused(tensor("F32", "[2]", "[8,16]"), "only 8 follow");
  expect_refused(tensor("F32", "[2]", "[18446744073709551608,18446744073709551615]"), "only 8 follow");
  expect_refused(tensor("F32", "[1]", "[0,8]"), "takes 4");
  expect_refused(tensor("F64", "[2]", "[0,8]"), "takes 16");
  expect_refused(tensor("F32", "[]", "[0,8]"), "takes 4");
}

TEST(Safetensors, RefusesOverlapHolesAndForgottenBytes) {
  const auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_NO_THROW((void)parse(safetensors_file(two("[4,8]", "[0,4]"), std::string(8, '\0'))));
  expect_refused(two("[0,4]", "[0,4]"), "overlap", std::string(4, '\0'));
  expect_refused(two("[0,4]", "[3,7]"), "overlap", std::string(7, '\0'));
  expect_refused(two("[5,9]", "[0,4]"), "hole", std::string(9, '\0'));
  expect_refused(two("[1,5]", "[5,9]"), "hole", std::string(9, '\0'));
  expect_refused(two("[0,4]", "[4,8]"), "all of the file's bytes", std::string(9, '\0'));
  expect_refused("{}", "all of the file's bytes");
  expect_refused(
      R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}})",
      "overlap");
}

TEST(Safetensors, RefusesMetadataThatIsNotText) {
  for (const char* metadata : {"1", "null", "[]", "\"text\""}) {
    expect_refused(std::string(R"({"__metadata__":)") + metadata + "}", "metadata that is not a dictionary");
  }
  for (const char* value : {"1", "null", "[]", "{}", "true"}) {
    expect_refused(std::string(R"({"__metadata__":{"k":)") + value + "}}", "metadata 'k' that is not text");
  }
}

TEST(Safetensors, ReadsWhatItWrites) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.safetensors");
  const std::vector<float> floats{1.5F, -2.0F, 0.0F, 65504.0F, 1e-45F, -0.0F};
  const std::vector<std::int64_t> ids{7, -8, INT64_MAX};
  const TensorBytes tensors[] = {{"ids", DType::i64, {3}, std::as_bytes(std::span(ids))},
                                 {"odd \"name\"\n", DType::f32, {2, 3}, std::as_bytes(std::span(floats))},
                                 {"none", DType::f32, {0, 4}, {}}};
  save_safetensors(path, tensors, {{"key", "a \"quoted\" value\n\xc3\xa9"}});

  const InputFile file(path);
  const SafetensorsInfo info = parse_safetensors(file);
  EXPECT_EQ(info.tensors.size(), 3U);
  EXPECT_EQ(info.metadata.at("key"), "a \"quoted\" value\n\xc3\xa9");
  EXPECT_EQ(info.tensor("ids", path).offset % 8, 0U);
  std::vector<float> floats_back(6);
  read_values(file, info.tensor("odd \"name\"\n", path), 0, std::span(floats_back));
  EXPECT_EQ(floats_back, floats);
  EXPECT_EQ(read_integers(path + "#ids"), ids);
}

}  // namespace
}  // namespace kedge::io
