// SPDX-License-Identifier: Apache-2.0
#include "compute/row_worker.h"
#include "files.h"
#include "io/output_file.h"
#include "io/safetensors.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <array>
#include <csignal>
#include <thread>

namespace kedge::io {
namespace {

namespace fs = std::filesystem;

using test::expect_error;
using test::read_file;
using test::TemporaryFolder;
using test::write_file;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Matrix counted(std::size_t rows, std::size_t cols) {
  Matrix matrix(rows, cols);
  for (std::size_t i = 0; i < matrix.cells().size(); ++i) matrix.cells()[i] = static_cast<float>(i);
  return matrix;
}

void write_text(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.append(text);
  file.finish(Durability::flushed);
}

TEST(RowWriter, LaysItsHeaderOutAsNumpyDoes) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.npy");
  const Matrix matrix = counted(5, 3);
  save_npy(path, matrix.view());
  const std::string file = read_file(path);
  ASSERT_GT(file.size(), 64U);
  EXPECT_EQ(file.substr(0, 6), "\x93NUMPY");
  EXPECT_EQ(file[6], 1);
  EXPECT_EQ(file[7], 0);
  const std::size_t start = 10U + static_cast<unsigned char>(file[8]) + 256U * static_cast<unsigned char>(file[9]);
  EXPECT_EQ(start % 64, 0U);
  EXPECT_EQ(file[start - 1], '\n');
  EXPECT_EQ(file.size(), start + matrix.cells().size_bytes());
  const std::string dictionary = file.substr(10, file.find('}') - 9);
  EXPECT_EQ(dictionary, "{'descr': '<f4', 'fortran_order': False, 'shape': (5, 3,), }");
  EXPECT_EQ(file.find_first_not_of(' ', 10 + dictionary.size()), start - 1);
}

TEST(RowWriter, WritesWhatOpenRowsReads) {
  const TemporaryFolder folder;
  const Matrix matrix = test::random_matrix(17, 5, 1);
  save_npy(folder.file("x.npy"), matrix.view());
  EXPECT_EQ(test::read_floats(*open_rows(folder.file("x.npy"))),
            std::vector<float>(matrix.cells().begin(), matrix.cells().end()));
}

TEST(RowWriter, WritesVectorsWithOneDimension) {
  const TemporaryFolder folder;
  const std::vector<float> values{1.5F, -2.0F};
  save_npy(folder.file("x.npy"), values);
  const std::string file = read_file(folder.file("x.npy"));
  EXPECT_THAT(file, ::testing::HasSubstr("'shape': (2,), }"));
  EXPECT_EQ(file.size() % 64, 8U);
  EXPECT_EQ(file.substr(file.size() - 8), test::packed({1.5F, -2.0F}));
}

TEST(RowWriter, WritesAMatrixWithoutRows) {
  const TemporaryFolder folder;
  save_npy(folder.file("x.npy"), MatrixView<const float>{nullptr, 0, 3, 3});
  const auto rows = open_rows(folder.file("x.npy"));
  EXPECT_EQ(rows->rows(), 0U);
  EXPECT_EQ(rows->cols(), 3U);
}

TEST(RowWriter, TakesBlocksInAnyOrderAndAnyStride) {
  const TemporaryFolder folder;
  const Matrix matrix = counted(10, 4);
  RowWriter writer(folder.file("x.npy"), 10, 3);
  const auto block = [&](std::size_t first, std::size_t count) {
    return MatrixView<const float>{matrix.row(first).data(), count, 3, 4};
  };
  writer.write(7, block(7, 3));
  writer.write(0, block(0, 4));
  writer.write(6, block(6, 1));
  writer.write(4, block(4, 2));
  writer.finish();
  const std::vector<float> found = test::read_floats(*open_rows(folder.file("x.npy")));
  for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(found[i], matrix.row(i / 3)[i % 3]);
}

TEST(RowWriter, TakesBlocksFromSeveralThreads) {
  const TemporaryFolder folder;
  const Matrix matrix = counted(400, 3);
  RowWriter writer(folder.file("x.npy"), 400, 3);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t r = t; r < 400; r += 4) writer.write(r, matrix.view().middle_rows(r, 1));
    });
  }
  for (std::thread& thread : threads) thread.join();
  writer.finish();
  EXPECT_THAT(test::read_floats(*open_rows(folder.file("x.npy"))), ::testing::ElementsAreArray(matrix.cells()));
}

TEST(RowWriter, ShowsNothingBeforeFinish) {
  const TemporaryFolder folder;
  const Matrix matrix = counted(2, 2);
  RowWriter writer(folder.file("x.npy"), 2, 2);
  writer.write(0, matrix.view());
  EXPECT_FALSE(fs::exists(folder.file("x.npy")));
  for (const std::string& name : folder.files())
    EXPECT_TRUE(name.starts_with('.') && name.ends_with(".partial")) << name;
  writer.finish();
  EXPECT_THAT(folder.files(), ElementsAre("x.npy"));
}

TEST(RowWriter, LeavesNothingBehindWithoutFinish) {
  const TemporaryFolder folder;
  const Matrix matrix = counted(2, 2);
  RowWriter(folder.file("x.npy"), 2, 2).write(0, matrix.view());
  EXPECT_THAT(folder.files(), IsEmpty());
}

TEST(RowWriter, KeepsTheOldFileWithoutFinish) {
  const TemporaryFolder folder;
  write_file(folder.file("x.npy"), "old");
  const Matrix matrix = counted(2, 2);
  RowWriter(folder.file("x.npy"), 2, 2).write(0, matrix.view());
  EXPECT_EQ(read_file(folder.file("x.npy")), "old");
  EXPECT_THAT(folder.files(), ElementsAre("x.npy"));
}

TEST(RowWriter, WantsANameThatEndsInNpy) {
  expect_error(
      Code::bad_argument, [] { RowWriter("x.bin", 1, 1); }, "x.bin.npy");
}

TEST(RowWriter, RefusesSizesThatOverflow) {
  const TemporaryFolder folder;
  expect_error(
      Code::failed, [&] { RowWriter(folder.file("x.npy"), SIZE_MAX / 4, 2); }, "does not fit");
  expect_error(
      Code::failed, [&] { RowWriter(folder.file("x.npy"), 1, SIZE_MAX / 2); }, "does not fit");
  EXPECT_THAT(folder.files(), IsEmpty());
}

// Above 256 MB the blocks bypass the page cache; the rows that are not written stay a hole, so this costs no disk.
TEST(RowWriter, WritesLargeFilesInAlignedBlocksWithATail) {
  constexpr std::size_t kCols = 300, kBlocks = 230, kTail = 77;
  constexpr std::size_t kTotal = kBlocks * RowWriter::kAlignment + kTail;
  static_assert(kTotal * kCols * sizeof(float) > std::size_t{256} << 20);
  const TemporaryFolder folder;
  PageAlignedMatrix buffer(RowWriter::kAlignment, kCols);
  const std::array<std::size_t, 5> blocks{kBlocks, 3, 0, kBlocks - 1, 1};
  const auto value = [](std::size_t row, std::size_t col) { return static_cast<float>(row % 4096 * 512 + col); };
  RowWriter writer(folder.file("x.npy"), kTotal, kCols);
  for (std::size_t back = 0; back <= kBlocks; ++back) {
    const std::size_t first = (kBlocks - back) * RowWriter::kAlignment;
    const auto view = buffer.view().middle_rows(0, std::min(RowWriter::kAlignment, kTotal - first));
    for (std::size_t r = 0; r < view.rows; ++r) {
      for (std::size_t c = 0; c < kCols; ++c) view.row(r)[c] = value(first + r, c);
    }
    writer.write(first, view);
  }
  writer.finish();

  const auto rows = open_rows(folder.file("x.npy"));
  ASSERT_EQ(rows->rows(), kTotal);
  for (const std::size_t block : blocks) {
    const std::size_t first = block * RowWriter::kAlignment;
    Matrix found(std::min(RowWriter::kAlignment, kTotal - first), kCols);
    rows->read(first, found.view());
    for (std::size_t r = 0; r < found.rows(); ++r) {
      for (std::size_t c = 0; c < kCols; ++c) ASSERT_EQ(found.row(r)[c], value(first + r, c)) << first + r;
    }
  }
}

TEST(OutputFile, TakesUnalignedPiecesOfALargeFile) {
  const TemporaryFolder folder;
  std::string text(20'000, '\0');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 % 251);
  const auto bytes = std::as_bytes(std::span(text));
  OutputFile file(folder.file("x.bin"), std::size_t{256} << 20);
  for (std::size_t start = 0; start < text.size(); start += 777) {
    file.write_at(start, bytes.subspan(start, std::min<std::size_t>(777, text.size() - start)));
  }
  file.finish(Durability::renamed);
  // All the space announced is taken; what was not written is zero.
  EXPECT_EQ(std::filesystem::file_size(folder.file("x.bin")), std::size_t{256} << 20);
  std::string found(text.size(), '?');
  std::ifstream(folder.file("x.bin"), std::ios::binary).read(found.data(), static_cast<std::streamsize>(found.size()));
  EXPECT_TRUE(found == text);
}

TEST(OutputFile, ReplacesAFileAndKeepsItsPermissions) {
  const TemporaryFolder folder;
  const std::string path = folder.file("x.txt");
  for (const auto bits : {fs::perms{0640}, fs::perms{0600}, fs::perms{0755}}) {
    write_file(path, "a longer old text");
    fs::permissions(path, bits);
    write_text(path, "new");
    EXPECT_EQ(read_file(path), "new");
    EXPECT_EQ(fs::status(path).permissions(), bits);
  }
  EXPECT_THAT(folder.files(), ElementsAre("x.txt"));
}

TEST(OutputFile, GivesANewFileWhatTheUmaskAllows) {
  const TemporaryFolder folder;
  const mode_t old = ::umask(027);
  write_text(folder.file("x.txt"), "new");
  ::umask(old);
  EXPECT_EQ(fs::status(folder.file("x.txt")).permissions(), fs::perms{0640});
}

TEST(OutputFile, KeepsALinkAndReplacesItsTarget) {
  const TemporaryFolder folder;
  fs::create_directory(folder.file("other"));
  write_file(folder.file("other/target.txt"), "old");
  fs::create_symlink("other/target.txt", folder.file("link.txt"));
  write_text(folder.file("link.txt"), "new");
  EXPECT_TRUE(fs::is_symlink(folder.file("link.txt")));
  EXPECT_FALSE(fs::is_symlink(folder.file("other/target.txt")));
  EXPECT_EQ(read_file(folder.file("other/target.txt")), "new");
}

TEST(OutputFile, WritesBesideTheWorkingDirectoryToo) {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.file("."));
  write_text("x.txt", "new");
  fs::current_path(before);
  EXPECT_EQ(read_file(folder.file("x.txt")), "new");
}

TEST(OutputFile, SaysWhyItCannotBeMade) {
  const TemporaryFolder folder;
  expect_error(
      Code::failed, [&] { write_text(folder.file("no/x.txt"), ""); }, "no/x.txt", "create the folder first");
  fs::create_directory(folder.file("folder"));
  expect_error(
      Code::failed, [&] { write_text(folder.file("folder"), ""); }, "folder", "Is a directory");
  write_file(folder.file("file"), "");
  expect_error(
      Code::failed, [&] { write_text(folder.file("file/x.txt"), ""); }, "file/x.txt", "Not a directory");
  EXPECT_THAT(folder.files(), ::testing::UnorderedElementsAre("folder", "file"));
}

TEST(OutputFile, RefusesToTakeAFoldersPlaceAtTheEnd) {
  const TemporaryFolder folder;
  OutputFile file(folder.file("x.txt"));
  fs::create_directory(folder.file("x.txt"));
  expect_error(
      Code::failed, [&] { file.finish(Durability::renamed); }, "cannot replace", "x.txt");
  EXPECT_TRUE(fs::is_directory(folder.file("x.txt")));
}

TEST(OutputFile, WritesPipesDirectly) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  write_text("/dev/fd/" + std::to_string(ends[1]), "through the pipe");
  std::array<char, 64> found{};
  EXPECT_EQ(::read(ends[0], found.data(), found.size()), 16);
  EXPECT_STREQ(found.data(), "through the pipe");
  for (const int end : ends) ::close(end);
}

TEST(OutputFile, SaysThatTheDiskIsFull) {
  const std::vector<float> values(3);
  const TensorBytes tensors[] = {{"t", DType::f32, {3}, std::as_bytes(std::span(values))}};
  expect_error(
      Code::failed, [&] { save_safetensors("/dev/full", tensors, {}); }, "cannot write '/dev/full'", "No space left",
      "free some space");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

/// Lets no file grow past `bytes` while it lives, as a full disk would.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit old_{};
  void (*handler_)(int) = std::signal(SIGXFSZ, SIG_IGN);
};

TEST(OutputFile, KeepsTheOldFileWhenWritingFailsHalfway) {
  const TemporaryFolder folder;
  write_file(folder.file("x.npy"), "old");
  const Matrix matrix = counted(5000, 3);
  {
    const FileSizeLimit limit(10'000);
    expect_error(
        Code::failed, [&] { save_npy(folder.file("x.npy"), matrix.view()); }, "cannot write", "File too large");
  }
  EXPECT_EQ(read_file(folder.file("x.npy")), "old");
  EXPECT_THAT(folder.files(), ElementsAre("x.npy"));
}

}  // namespace
}  // namespace kedge::io
