// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "base/wording.h"
#include "io/array.h"
#include "io/output_file.h"

#include <kedge/rows.h>

#include <array>
#include <atomic>

namespace kedge {

struct RowWriter::File {
  io::OutputFile output;
  std::size_t start, rows, cols, row_bytes;
  std::atomic<std::size_t> written{0};
};

RowWriter::RowWriter(const std::string& path, std::size_t rows, std::size_t cols) {
  if (!path.ends_with(".npy")) {
    refuse("cannot write '{}': results are npy files, so name it '{}.npy'", path, path);
  }
  const std::size_t row_bytes = checked_mul(cols, sizeof(float));
  const std::string header = io::npy_header(std::array{rows, cols}, io::OutputFile::kAlignment);
  const std::size_t size = checked_add(header.size(), checked_mul(row_bytes, rows));
  file_.reset(new File{io::OutputFile(path, size), header.size(), rows, cols, row_bytes});
  file_->output.append(header);
  if (!file_->output.is_regular()) {
    refuse("cannot write '{}': rows are written in any order, which needs a regular file", path);
  }
}

RowWriter::~RowWriter() = default;
RowWriter::RowWriter(RowWriter&&) noexcept = default;
RowWriter& RowWriter::operator=(RowWriter&&) noexcept = default;

void RowWriter::write(std::size_t first, MatrixView<const float> block) {
  if (block.cols != file_->cols || block.rows > file_->rows || first > file_->rows - block.rows) {
    refuse("{} rows of {} values at row {} do not fit into a file of {} x {}", block.rows, block.cols, first,
           file_->rows, file_->cols);
  }
  file_->written += block.rows;
  const std::size_t start = file_->start + first * file_->row_bytes;
  if (block.stride == block.cols) {
    file_->output.write_at(start, std::as_bytes(std::span(block.data, block.rows * block.cols)));
    return;
  }
  for (std::size_t r = 0; r < block.rows; ++r) {
    file_->output.write_at(start + r * file_->row_bytes, std::as_bytes(block.row(r)));
  }
}

void RowWriter::finish(bool replaces_input) {
  if (file_->written != file_->rows) {
    fail("only {} of {} rows were written, so the file is not moved into place", file_->written.load(), file_->rows);
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
  io::OutputFile file(path);
  file.append(io::npy_header(std::array{values.size()}, 64));
  file.append(std::as_bytes(values));
  file.finish(io::Durability::renamed);
}

void save_npy(const std::string& path, std::span<const std::int64_t> values, std::size_t cols) {
  io::OutputFile file(path);
  file.append(io::npy_header(std::array{values.size() / cols, cols}, 64, io::DType::i64));
  file.append(std::as_bytes(values));
  file.finish(io::Durability::renamed);
}

void save_text(const std::string& path, std::string_view text) {
  io::OutputFile file(path);
  file.append(text);
  file.finish(io::Durability::renamed);
}

}  // namespace kedge
