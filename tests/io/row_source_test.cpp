// SPDX-License-Identifier: Apache-2.0
#include "files.h"
#include "io/array.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>

namespace kedge {
namespace {

using test::expect_error;
using test::npy_dictionary;
using test::npy_file;
using test::packed;
using test::read_doubles;
using test::read_floats;
using test::safetensors_file;
using test::TemporaryFolder;
using ::testing::ElementsAre;

constexpr std::size_t kRows = 23, kCols = 7;

/// A value that every type of the tests holds exactly.
float value_at(std::size_t r, std::size_t c) {
  return static_cast<float>(r) * 8 - static_cast<float>(c);
}

template <class Value>
std::string all_values(bool by_columns, std::endian order, Value value) {
  std::string bytes;
  for (std::size_t i = 0; i < kRows * kCols; ++i) {
    bytes += by_columns ? packed({value(i % kRows, i / kRows)}, order) : packed({value(i / kCols, i % kCols)}, order);
  }
  return bytes;
}

/// The same matrix in every format kedge reads; returns the paths.
std::vector<std::string> write_in_every_format(const TemporaryFolder& folder) {
  std::vector<std::string> paths;
  const auto add = [&](const std::string& name, const std::string& bytes) {
    paths.push_back(folder.file(name));
    test::write_file(paths.back(), bytes);
  };
  const auto as_float = [](auto r, auto c) { return value_at(r, c); };
  const auto as_double = [](auto r, auto c) { return static_cast<double>(value_at(r, c)); };
  const auto as_bfloat = [](auto r, auto c) {
    return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value_at(r, c)) >> 16);
  };
  for (const bool by_columns : {false, true}) {
    for (const auto order : {std::endian::little, std::endian::big}) {
      const std::string name =
          std::string(by_columns ? "columns" : "rows") + (order == std::endian::big ? "_big" : "_little");
      const std::string sign = order == std::endian::big ? ">" : "<";
      add(name + "4.npy",
          npy_file(npy_dictionary(sign + "f4", "(23, 7)", by_columns), all_values(by_columns, order, as_float)));
      add(name + "8.npy",
          npy_file(npy_dictionary(sign + "f8", "(23, 7)", by_columns), all_values(by_columns, order, as_double)));
      const auto add_integers = [&]<class Integer>(const std::string& type, Integer) {
        add(name + "_" + type + ".npy", npy_file(npy_dictionary(sign + type, "(23, 7)", by_columns),
                                                 all_values(by_columns, order, [](auto r, auto c) {
                                                   return static_cast<Integer>(value_at(r, c));
                                                 })));
      };
      add_integers("i2", std::int16_t{});
      add_integers("i4", std::int32_t{});
      add_integers("i8", std::int64_t{});
    }
  }
  add("only.safetensors", safetensors_file(R"({"x":{"dtype":"F32","shape":[23,7],"data_offsets":[0,644]}})",
                                           all_values(false, std::endian::little, as_float)));
  add("bfloat.safetensors", safetensors_file(R"({"x":{"dtype":"BF16","shape":[23,7],"data_offsets":[0,322]}})",
                                             all_values(false, std::endian::little, as_bfloat)));
  add("integers.safetensors", safetensors_file(R"({"x":{"dtype":"I32","shape":[23,7],"data_offsets":[0,644]}})",
                                               all_values(false, std::endian::little, [](auto r, auto c) {
                                                 return static_cast<std::int32_t>(value_at(r, c));
                                               })));
  std::string fvecs;
  for (std::size_t r = 0; r < kRows; ++r) {
    fvecs += packed({static_cast<std::int32_t>(kCols)});
    for (std::size_t c = 0; c < kCols; ++c) fvecs += packed({value_at(r, c)});
  }
  add("x.fvecs", fvecs);
  return paths;
}

template <class T>
void expect_blocks_equal_values(const RowSource& rows) {
  ASSERT_EQ(rows.rows(), kRows);
  ASSERT_EQ(rows.cols(), kCols);
  for (const std::size_t stride : {kCols, kCols + 3}) {
    for (std::size_t first = 0; first <= kRows; ++first) {
      for (std::size_t count = 0; first + count <= kRows; ++count) {
        std::vector<T> cells(count * stride + 1, -999);
        rows.read(first, MatrixView<T>{cells.data(), count, kCols, stride});
        std::vector<T> expected(cells.size(), -999);
        for (std::size_t r = 0; r < count; ++r) {
          for (std::size_t c = 0; c < kCols; ++c) expected[r * stride + c] = static_cast<T>(value_at(first + r, c));
        }
        ASSERT_EQ(cells, expected) << rows.label() << ": " << count << " rows from " << first << ", stride " << stride;
      }
    }
  }
}

TEST(RowSource, ReadsAnyBlockOfAnyFormatAndTouchesNothingElse) {
  const TemporaryFolder folder;
  for (const std::string& path : write_in_every_format(folder)) {
    const auto rows = open_rows(path);
    EXPECT_EQ(rows->label(), path);
    expect_blocks_equal_values<float>(*rows);
    expect_blocks_equal_values<double>(*rows);
  }
}

TEST(RowSource, HasNoRowsBeyondItsOwn) {
  const TemporaryFolder folder;
  Matrix memory(kRows, kCols);
  std::vector sources{view_rows(memory.view(), "memory")};
  for (const std::string& path : write_in_every_format(folder)) sources.push_back(open_rows(path));
  for (const auto& rows : sources) {
    Matrix out(3, kCols), wide(3, kCols + 1);
    const auto read = [&](std::size_t first, MatrixView<float> to) { return [=, &rows] { rows->read(first, to); }; };
    expect_error(Code::bad_argument, read(kRows - 2, out.view()), rows->label(), "3 rows of 7 values from row 21 on",
                 "has 23 rows of 7");
    expect_error(Code::bad_argument, read(RowRange::kEnd, out.view()), "has 23 rows");
    expect_error(Code::bad_argument, read(0, wide.view()), "3 rows of 8 values");
    EXPECT_NO_THROW(read(kRows, out.view().middle_rows(0, 0))());
  }
}

TEST(RowSource, ReadsMoreThanItKeepsAtOnce) {
  const TemporaryFolder folder;
  constexpr std::size_t kMany = 3 * io::kReadBytes / sizeof(double);
  std::string values;
  std::vector<double> expected(kMany);
  for (std::size_t i = 0; i < kMany; ++i) expected[i] = static_cast<double>(i % 1009);
  values.assign(reinterpret_cast<const char*>(expected.data()), kMany * sizeof(double));
  test::write_file(folder.file("x.npy"),
                   test::npy_file(test::npy_dictionary("<f8", "(" + std::to_string(kMany / 3) + ", 3)"), values));
  const auto rows = open_rows(folder.file("x.npy"));
  EXPECT_EQ(test::read_doubles(*rows), expected);
  EXPECT_EQ(test::read_floats(*rows), std::vector<float>(expected.begin(), expected.end()));
  Matrix padded(rows->rows(), 5);
  rows->read(0, padded.view().middle_cols(1, 3));
  for (std::size_t i = 0; i < kMany; ++i) ASSERT_EQ(padded.row(i / 3)[1 + i % 3], expected[i]) << i;
}

TEST(RowSource, SaysSoWhenAFileBecomesShorter) {
  const TemporaryFolder folder;
  for (const std::string& path : write_in_every_format(folder)) {
    const auto rows = open_rows(path);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
    Matrix out(rows->rows(), rows->cols());
    expect_error(
        Code::bad_file, [&] { rows->read(0, out.view()); }, path, "got shorter while it was being read");
  }
}

TEST(RowSource, KeepsToTheSizeAtOpening) {
  const TemporaryFolder folder;
  for (const std::string& path : write_in_every_format(folder)) {
    const auto rows = open_rows(path);
    const std::vector<float> before = read_floats(*rows);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) + 1000);
    EXPECT_EQ(read_floats(*rows), before) << path;
    std::filesystem::remove(path);
    EXPECT_EQ(read_floats(*rows), before) << path;
  }
}

TEST(RowSource, ViewsMemoryOfEitherPrecision) {
  Matrix floats(kRows, kCols);
  Matrix64 padded(kRows, kCols + 2);
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t c = 0; c < kCols; ++c) floats.row(r)[c] = value_at(r, c);
    for (std::size_t c = 0; c < kCols; ++c) padded.row(r)[c] = value_at(r, c);
  }
  const auto narrow = view_rows(floats.view(), "narrow");
  const auto wide = view_rows(MatrixView<const double>{padded.cells().data(), kRows, kCols, kCols + 2}, "wide");
  EXPECT_EQ(narrow->label(), "narrow");
  for (const auto& rows : {narrow, wide}) {
    expect_blocks_equal_values<float>(*rows);
    expect_blocks_equal_values<double>(*rows);
  }
}

TEST(RowSource, KeepsDoublesExact) {
  const TemporaryFolder folder;
  test::write_file(folder.file("x.npy"),
                   npy_file(npy_dictionary(">f8", "(1, 2)"), packed({0.1, 1e300}, std::endian::big)));
  EXPECT_THAT(read_doubles(*open_rows(folder.file("x.npy"))), ElementsAre(0.1, 1e300));
  test::write_file(
      folder.file("x.safetensors"),
      safetensors_file(R"({"x":{"dtype":"F64","shape":[1,2],"data_offsets":[0,16]}})", packed({0.1, 1e300})));
  EXPECT_THAT(read_doubles(*open_rows(folder.file("x.safetensors"))), ElementsAre(0.1, 1e300));
}

class TensorPath : public ::testing::Test {
 protected:
  TensorPath() { test::write_file(path_, several()); }

  static std::string several() {
    return safetensors_file(R"({"half":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]},)"
                            R"("brain":{"dtype":"BF16","shape":[1,2],"data_offsets":[4,8]},)"
                            R"("single":{"dtype":"F32","shape":[1,2],"data_offsets":[8,16]},)"
                            R"("double":{"dtype":"F64","shape":[1,2],"data_offsets":[16,32]},)"
                            R"("ids":{"dtype":"I64","shape":[2],"data_offsets":[32,48]},)"
                            R"("a#b":{"dtype":"F32","shape":[1,1],"data_offsets":[48,52]},)"
                            R"("raw":{"dtype":"F8_E5M2","shape":[2,2],"data_offsets":[52,56]}})",
                            packed<std::uint16_t>({0x3c00, 0x7bff, 0x3f80, 0xc049}) + packed({0.1F, -0.0F}) +
                                packed({0.1, 1e300}) + packed({3L, -4L}) + packed({7.0F}) + "rawx");
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.file("x.safetensors");
};

TEST_F(TensorPath, NamesOneOfSeveral) {
  EXPECT_THAT(read_floats(*open_rows(path_ + "#half")), ElementsAre(1.0F, 65504.0F));
  EXPECT_THAT(read_floats(*open_rows(path_ + "#brain")), ElementsAre(1.0F, -3.140625F));
  EXPECT_THAT(read_floats(*open_rows(path_ + "#single")), ElementsAre(0.1F, -0.0F));
  EXPECT_THAT(read_doubles(*open_rows(path_ + "#double")), ElementsAre(0.1, 1e300));
  EXPECT_THAT(read_integers(path_ + "#ids"), ElementsAre(3, -4));
}

TEST_F(TensorPath, MayHoldTheSignItself) {
  EXPECT_THAT(read_floats(*open_rows(path_ + "#a#b")), ElementsAre(7.0F));
  const std::string odd = folder_.file("run#3.safetensors");
  test::write_file(odd, several());
  EXPECT_THAT(read_floats(*open_rows(odd + "#half")), ElementsAre(1.0F, 65504.0F));
  test::write_file(odd,
                   safetensors_file(R"({"x":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}})", packed({5.0F})));
  EXPECT_THAT(read_floats(*open_rows(odd)), ElementsAre(5.0F));
}

TEST_F(TensorPath, MustSayWhichWhereThereAreSeveral) {
  expect_error(
      Code::bad_file, [&] { (void)open_rows(path_); }, "7 tensors", "#NAME", "brain", "single");
  expect_error(
      Code::bad_file, [&] { (void)open_rows(path_ + "#other"); }, "no tensor 'other'", "brain");
}

TEST_F(TensorPath, MustNameAMatrixOfNumbers) {
  expect_error(
      Code::bad_file, [&] { (void)open_rows(path_ + "#ids"); }, "1 dimension");
  expect_error(
      Code::bad_file, [&] { (void)open_rows(path_ + "#raw"); }, "expected floats of at least 16 bits or integers");
  expect_error(
      Code::bad_file, [&] { (void)read_integers(path_ + "#single"); }, "int64", "float32");
}

TEST(RowSource, SaysWhichNamesItReads) {
  for (const char* path : {"x", "x.csv", "x.npz", "npy", "x.npy#t", "x.fvecs#t", ""}) {
    expect_error(
        Code::bad_file, [&] { (void)open_rows(path); }, "its name must end in .npy");
  }
  expect_error(
      Code::bad_file, [] { (void)read_integers("x.fvecs"); }, "its name must end in .npy");
}

TEST(RowSource, SaysWhyAFileCannotBeOpened) {
  const TemporaryFolder folder;
  for (const char* name : {"x.npy", "x.safetensors", "x.safetensors#t", "x.fvecs"}) {
    expect_error(
        Code::bad_file, [&] { (void)open_rows(folder.file(name)); }, "cannot read", "No such file");
  }
  std::filesystem::create_directory(folder.file("folder.npy"));
  expect_error(
      Code::bad_file, [&] { (void)open_rows(folder.file("folder.npy")); }, "folder.npy", "not a regular file");
  ASSERT_EQ(::mkfifo(folder.file("pipe.npy").c_str(), 0600), 0);
  expect_error(
      Code::bad_file, [&] { (void)open_rows(folder.file("pipe.npy")); }, "pipe.npy", "not a regular file");
}

TEST(RowSource, RefusesEmptyFiles) {
  const TemporaryFolder folder;
  for (const char* name : {"x.npy", "x.safetensors", "x.fvecs"}) {
    test::write_file(folder.file(name), "");
    expect_error(
        Code::bad_file, [&] { (void)open_rows(folder.file(name)); }, name);
  }
}

TEST(ReadIntegers, TakesBothWidthsAndByteOrders) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& descr, const std::string& values) {
    test::write_file(folder.file("ids.npy"), npy_file(npy_dictionary(descr, "(3,)"), values));
    return read_integers(folder.file("ids.npy"));
  };
  EXPECT_THAT(read("<i8", packed({1L, -2L, INT64_MAX})), ElementsAre(1, -2, INT64_MAX));
  EXPECT_THAT(read(">i8", packed({1L, -2L, INT64_MIN}, std::endian::big)), ElementsAre(1, -2, INT64_MIN));
  EXPECT_THAT(read("<i4", packed({1, -2, INT32_MAX})), ElementsAre(1, -2, INT32_MAX));
  EXPECT_THAT(read(">i4", packed({1, -2, INT32_MIN}, std::endian::big)), ElementsAre(1, -2, INT32_MIN));
}

TEST(ReadIntegers, RefusesFloatsAndMatrices) {
  const TemporaryFolder folder;
  const auto refuse = [&](const std::string& descr, const std::string& shape, const std::string& values,
                          const char* word) {
    test::write_file(folder.file("ids.npy"), npy_file(npy_dictionary(descr, shape), values));
    expect_error(
        Code::bad_file, [&] { (void)read_integers(folder.file("ids.npy")); }, "astype('int64')", word);
  };
  refuse("<f8", "(2,)", packed({1.0, 2.0}), "float64");
  refuse("<i8", "(1, 2)", packed({1L, 2L}), "2 dimension");
  refuse("<i8", "()", packed({1L}), "0 dimension");
}

}  // namespace
}  // namespace kedge
