// SPDX-License-Identifier: Apache-2.0
#include "files.h"
#include "io/array.h"

#include <cstdint>

namespace kedge::io {
namespace {

using test::bytes_of;
using test::expect_error;
using test::npy_dictionary;
using test::npy_file;
using test::packed;
using test::TemporaryFolder;
using ::testing::ElementsAre;

const std::string kGood = npy_file(npy_dictionary("<f4", "(2, 3)"), packed({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}));

ArrayInfo parse(const std::string& file) {
  return parse_npy(MemoryBytes(bytes_of(file), "x.npy"));
}

void expect_refused(const std::string& file, const std::string& word) {
  SCOPED_TRACE(file);
  expect_error(
      Code::bad_file, [&] { (void)parse(file); }, "x.npy", word);
}

std::vector<float> floats_in(const std::string& file) {
  const TemporaryFolder folder;
  test::write_file(folder.file("x.npy"), file);
  return test::read_floats(*open_rows(folder.file("x.npy")));
}

std::vector<double> doubles_in(const std::string& file) {
  const TemporaryFolder folder;
  test::write_file(folder.file("x.npy"), file);
  return test::read_doubles(*open_rows(folder.file("x.npy")));
}

TEST(Npy, ReadsVersionsOneToThree) {
  for (const int version : {1, 2, 3}) {
    const std::string file = npy_file(npy_dictionary("<f4", "(2, 2)"), packed({1.0F, -2.0F, 0.5F, 4.0F}), version);
    EXPECT_THAT(floats_in(file), ElementsAre(1.0F, -2.0F, 0.5F, 4.0F)) << version;
    EXPECT_EQ(parse(file).offset, file.size() - 16) << version;
  }
}

TEST(Npy, ReadsEveryFloatInEveryByteOrder) {
  const std::pair<std::string, std::endian> orders[] = {
      {"<", std::endian::little}, {">", std::endian::big}, {"=", std::endian::native}};
  for (const auto& [sign, order] : orders) {
    const auto file = [&sign = sign](const std::string& type, const std::string& values) {
      return npy_file(npy_dictionary(sign + type, "(2, 2)"), values);
    };
    const std::string halves = packed<std::uint16_t>({0x3e00, 0x8001, 0x7bff, 0x0000}, order);
    EXPECT_THAT(floats_in(file("f2", halves)), ElementsAre(1.5F, -0x1p-24F, 65504.0F, 0.0F)) << sign;
    EXPECT_THAT(doubles_in(file("f2", halves)), ElementsAre(1.5, -0x1p-24, 65504.0, 0.0)) << sign;
    const std::string floats = packed({1.5F, -0.1F, 3e38F, 1e-45F}, order);
    EXPECT_THAT(floats_in(file("f4", floats)), ElementsAre(1.5F, -0.1F, 3e38F, 1e-45F)) << sign;
    EXPECT_THAT(doubles_in(file("f4", floats)), ElementsAre(1.5, -0.1F, 3e38F, 1e-45F)) << sign;
    const std::string doubles = packed({1.5, -0.1, 1e300, 5e-324}, order);
    EXPECT_THAT(floats_in(file("f8", doubles)), ElementsAre(1.5F, -0.1F, HUGE_VALF, 0.0F)) << sign;
    EXPECT_THAT(doubles_in(file("f8", doubles)), ElementsAre(1.5, -0.1, 1e300, 5e-324)) << sign;
  }
}

TEST(Npy, ReadsColumnsOfFortranOrderAsRows) {
  const std::string values = packed({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F});
  EXPECT_THAT(floats_in(npy_file(npy_dictionary("<f4", "(2, 3)", true), values)), ElementsAre(1, 3, 5, 2, 4, 6));
  EXPECT_THAT(doubles_in(npy_file(npy_dictionary("<f4", "(2, 3)", true), values)), ElementsAre(1, 3, 5, 2, 4, 6));
}

TEST(Npy, ReadsHeadersThatPythonCouldHaveWritten) {
  const std::string values = packed({1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F});
  for (const char* dictionary : {R"({"shape": (2L, 3L), "fortran_order": False, "descr": "<f4"})",
                                 "{'shape':(2,3),'descr':'<f4','fortran_order':False}",
                                 " { 'descr' : '<f4' ,\t'fortran_order' : False, \n'shape' : ( 2 , 3 , ) , } "}) {
    EXPECT_THAT(parse(npy_file(dictionary, values)).shape, ElementsAre(2, 3)) << dictionary;
  }
}

TEST(Npy, ReadsArraysOfAnyRankUpToNumpysLimit) {
  EXPECT_THAT(parse(npy_file(npy_dictionary("<f8", "()"), packed({1.0}))).shape, ElementsAre());
  EXPECT_THAT(parse(npy_file(npy_dictionary("<i8", "(2,)"), packed({1L, 2L}))).shape, ElementsAre(2));
  std::string ones = "(";
  for (int i = 0; i < 32; ++i) ones += "1, ";
  EXPECT_EQ(parse(npy_file(npy_dictionary("<i4", ones + ")"), packed({1}))).shape.size(), 32U);
}

TEST(Npy, ReadsAnArrayWithoutRows) {
  const ArrayInfo array = parse(npy_file(npy_dictionary("<f4", "(0, 3)"), ""));
  EXPECT_THAT(array.shape, ElementsAre(0, 3));
  EXPECT_EQ(array.bytes, 0U);
  EXPECT_TRUE(floats_in(npy_file(npy_dictionary("<f4", "(0, 3)", true), "")).empty());
}

TEST(Npy, ReadsWhatItsOwnHeaderAnnounces) {
  for (const std::size_t alignment : {64U, 4096U}) {
    const std::size_t shape[] = {2, 3};
    const std::string header = npy_header(shape, alignment);
    EXPECT_EQ(header.size() % alignment, 0U);
    const ArrayInfo array = parse(header + std::string(24, '\0'));
    EXPECT_THAT(array.shape, ElementsAre(2, 3));
    EXPECT_EQ(array.offset, header.size());
    EXPECT_EQ(array.dtype, DType::f32);
    EXPECT_FALSE(array.fortran_order);
  }
}

TEST(Npy, RefusesEveryPrefixOfAGoodFile) {
  for (const int version : {1, 2}) {
    const std::string good = npy_file(npy_dictionary("<f4", "(2, 3)"), kGood.substr(kGood.size() - 24), version);
    EXPECT_NO_THROW((void)parse(good));
    for (std::size_t size = 0; size < good.size(); ++size) expect_refused(good.substr(0, size), "");
  }
}

TEST(Npy, RefusesAnythingAfterTheValues) {
  expect_refused(kGood + '\0', "damaged");
  expect_refused(kGood + kGood, "written to twice");
}

TEST(Npy, RefusesAnotherMagic) {
  expect_refused("", "numpy.save");
  for (std::size_t i = 0; i < 6; ++i) {
    std::string other = kGood;
    other[i] = static_cast<char>(other[i] + 1);
    expect_refused(other, "does not start like an npy file");
  }
}

TEST(Npy, RefusesUnknownVersions) {
  for (const int version : {0, 4, 255})
    expect_refused(npy_file(npy_dictionary("<f4", "(0, 3)"), "", version), "version");
}

TEST(Npy, RefusesAHeaderLongerThanTheFile) {
  const std::string dictionary = npy_dictionary("<f4", "(2, 3)");
  expect_refused(npy_file(dictionary, "", 1, 0xffff), "claims 65535 bytes");
  expect_refused(npy_file(dictionary, "", 2, 0xffffffff), "claims 4294967295 bytes");
  const auto length = static_cast<long>(dictionary.size() + 1);
  expect_refused(npy_file(dictionary, "", 2, length + 1), "claims");
  expect_refused(npy_file(dictionary, "", 2, 0), "no '{'");
}

TEST(Npy, RefusesSizesThatLie) {
  for (const char* shape : {"(-1, 3)", "(2, -3)", "(18446744073709551616, 3)", "(99999999999999999999999999,)", "(a,)",
                            "(, 3)", "(None, 3)", "('2', 3)"}) {
    expect_refused(npy_file(npy_dictionary("<f4", shape), ""), "a size that is negative, too large, or not a number");
  }
  for (const char* shape : {"(2.0, 3)", "(0x2, 3)", "(2 3)", "(2, 3", "(2; 3)", "((2, 3))", "[2, 3]", "2, 3", "1e3"}) {
    expect_refused(npy_file(npy_dictionary("<f4", shape), std::string(24, '\0')), "npy header has");
  }
}

TEST(Npy, RefusesAShapeWhoseProductOverflows) {
  for (const char* shape : {"(4611686018427387904, 1)", "(4294967296, 4294967296)", "(18446744073709551615, 2)",
                            "(4294967297, 4294967297, 2)", "(18446744073709551615,)"}) {
    expect_refused(npy_file(npy_dictionary("<f4", shape), ""), "impossible shape");
  }
  expect_refused(npy_file(npy_dictionary("<f4", "(4611686018427387903, 1)"), ""), "cut short");
}

TEST(Npy, RefusesMoreDimensionsThanNumpy) {
  for (const int dimensions : {33, 20000}) {
    std::string ones = "(";
    for (int i = 0; i < dimensions; ++i) ones += "1,";
    expect_refused(npy_file(npy_dictionary("<f4", ones + ")"), packed({1.0F}), 2), "more dimensions");
  }
}

TEST(Npy, RefusesMissingEntries) {
  expect_refused(npy_file("{}", ""), "lacks");
  expect_refused(npy_file("{'fortran_order': False, 'shape': (0, 3)}", ""), "lacks");
  expect_refused(npy_file("{'descr': '<f4', 'shape': (0, 3)}", ""), "lacks");
  expect_refused(npy_file("{'descr': '<f4', 'fortran_order': False}", ""), "lacks");
}

TEST(Npy, RefusesRepeatedAndUnknownEntries) {
  const std::string start = "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3), ";
  expect_refused(npy_file(start + "'descr': '<f8'}", ""), "repeated entry 'descr'");
  expect_refused(npy_file(start + "'shape': (0, 3)}", ""), "repeated entry 'shape'");
  expect_refused(npy_file(start + "'fortran_order': True}", ""), "repeated entry 'fortran_order'");
  expect_refused(npy_file(start + "'colour': 'red'}", ""), "unknown");
}

TEST(Npy, RefusesADamagedDictionary) {
  expect_refused(npy_file("     ", ""), "no '{'");
  expect_refused(npy_file("descr: <f4", ""), "no '{'");
  expect_refused(npy_file("{'descr", ""), "unfinished text");
  expect_refused(npy_file("{'descr\"", ""), "unfinished text");
  expect_refused(npy_file("{'descr': '<f4", ""), "unfinished text");
  expect_refused(npy_file("{'descr'", ""), "no ':'");
  expect_refused(npy_file("{'descr': '<f4'", ""), "no '}'");
  expect_refused(npy_file("{'descr': '<f4' 'shape': (0, 3)}", ""), "no '}'");
  expect_refused(npy_file("{'descr': '<f4',, 'shape': (0, 3)}", ""), "no plain text");
  expect_refused(npy_file("{'fortran_order': false}", ""), "True or False");
  expect_refused(npy_file("{'fortran_order': 1}", ""), "True or False");
  expect_refused(npy_file(npy_dictionary("<f4", "(0, 3)") + "}", ""), "text after its end");
  expect_refused(npy_file(npy_dictionary("<f4", "(0, 3)") + std::string(1, '\0'), ""), "text after its end");
  expect_refused(npy_file(std::string(60000, '{'), ""), "no plain text");
}

TEST(Npy, RefusesArraysOfRecords) {
  expect_refused(npy_file("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (1,)}", packed({1.0F})),
                 "records");
  expect_refused(npy_file("{'descr': ('<f4', (3,)), 'fortran_order': False, 'shape': (1,)}", packed({1.0F})),
                 "records");
}

TEST(Npy, KnowsBytesHoweverTheirOrderIsWritten) {
  for (const char* descr : {"|u1", "<u1", ">u1", "=u1"}) {
    const ArrayInfo array = parse(npy_file(npy_dictionary(descr, "(2,)"), "\x01\xff"));
    EXPECT_EQ(array.dtype, DType::u8);
    EXPECT_FALSE(array.swapped);
  }
}

TEST(Npy, RefusesOtherTypesAndSaysHowToConvert) {
  for (const char* descr : {"", "<", "f4", "<f", "<f1", "<f16", "|f4", "!f4", "<c8", "<M8[s]", "|V2", "<f4 ", "<f44"}) {
    expect_refused(npy_file(npy_dictionary(descr, "(0, 3)"), ""), "astype('float32')");
  }
  for (const char* descr : {"|O", "<U4", "|S4"}) {
    expect_refused(npy_file(npy_dictionary(descr, "(0, 3)"), ""), "np.unique(labels, return_inverse=True)");
  }
}

}  // namespace
}  // namespace kedge::io
