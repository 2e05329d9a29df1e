// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "io/npy.h"
#include "io/output_file.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/rows.h>

#include <atomic>

namespace kedge {

struct RowWriter::File {
  File(const std::string& path, const std::string& header, std::size_t row_count, std::size_t col_count)
      : output(path, checked_add(header.size(), checked_mul(checked_mul(col_count, sizeof(float)), row_count))),
        start(header.size()),
        rows(row_count),
        cols(col_count) {
    output.append(header);
  }
  io::OutputFile output;
  std::size_t start, rows, cols;
  std::atomic<std::size_t> written{0};
};

namespace {

std::size_t row_bytes(std::size_t cols) {
  return checked_mul(cols, sizeof(float));
}

}  // namespace

RowWriter::RowWriter(const std::string& path, std::size_t rows, std::size_t cols) {
  if (!path.ends_with(".npy")) {
    throw Error(Code::bad_argument,
                fmt::format("cannot write '{}': results are npy files, so name it '{}.npy'", path, path));
  }
  const std::size_t shape[] = {rows, cols};
  file_ = std::make_unique<File>(path, io::npy_header(shape, io::OutputFile::kAlignment), rows, cols);
  if (!file_->output.is_regular()) {
    throw Error(Code::bad_argument,
                fmt::format("cannot write '{}': rows are written in any order, which needs a regular file", path));
  }
}

RowWriter::~RowWriter() = default;
RowWriter::RowWriter(RowWriter&&) noexcept = default;
RowWriter& RowWriter::operator=(RowWriter&&) noexcept = default;

void RowWriter::write(std::size_t first, MatrixView<const float> block) {
  if (block.cols != file_->cols || block.rows > file_->rows || first > file_->rows - block.rows) {
    throw Error(Code::bad_argument, fmt::format("{} rows of {} values at row {} do not fit into a file of {} x {}",
                                                block.rows, block.cols, first, file_->rows, file_->cols));
  }
  file_->written += block.rows;
  const std::size_t start = file_->start + first * row_bytes(block.cols);
  if (block.stride == block.cols) {
    file_->output.write_at(start, std::as_bytes(std::span(block.data, block.rows * block.cols)));
    return;
  }
  for (std::size_t r = 0; r < block.rows; ++r) {
    file_->output.write_at(start + r * row_bytes(block.cols), std::as_bytes(block.row(r)));
  }
}

void RowWriter::finish(bool replaces_input) {
  if (file_->written != file_->rows) {
    throw Error(Code::failed, fmt::format("only {} of {} rows were written, so the file is not moved into place",
                                          file_->written.load(), file_->rows));
  }
  file_->output.finish(replaces_input ? io::Durability::flushed : io::Durability::renamed);
}

std::shared_ptr<const void> require_writable(const std::string& path) {
  auto trial = std::make_shared<const io::OutputFile>(path);
  if (trial->is_regular()) trial.reset();
  return trial;
}

void save_npy(const std::string& path, MatrixView<const float> matrix) {
  RowWriter writer(path, matrix.rows, matrix.cols);
  writer.write(0, matrix);
  writer.finish();
}

void save_npy(const std::string& path, std::span<const float> values) {
  const std::size_t shape[] = {values.size()};
  io::OutputFile file(path);
  file.append(io::npy_header(shape, 64));
  file.append(std::as_bytes(values));
  file.finish(io::Durability::renamed);
}

void save_text(const std::string& path, std::string_view text) {
  io::OutputFile file(path);
  file.append(text);
  file.finish(io::Durability::renamed);
}

}  // namespace kedge
