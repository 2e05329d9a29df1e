// SPDX-License-Identifier: Apache-2.0
#include "base/checked.h"
#include "io/npy.h"
#include "io/output_file.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/rows.h>

namespace kedge {

struct RowWriter::File {
  File(const std::string& path, const std::string& header, std::size_t row_bytes, std::size_t rows)
      : output(path, checked_add(header.size(), checked_mul(row_bytes, rows))), start(header.size()) {
    output.append(header);
  }
  io::OutputFile output;
  std::size_t start;
};

namespace {

std::size_t row_bytes(std::size_t cols) { return checked_mul(cols, sizeof(float)); }

}  // namespace

RowWriter::RowWriter(const std::string& path, std::size_t rows, std::size_t cols) {
  if (!path.ends_with(".npy")) {
    throw Error(Code::bad_argument, fmt::format("cannot write '{}': results are npy files, so name it '{}.npy'", path, path));
  }
  const std::size_t shape[] = {rows, cols};
  file_ = std::make_unique<File>(path, io::npy_header(shape, io::OutputFile::kAlignment), row_bytes(cols), rows);
}

RowWriter::~RowWriter() = default;
RowWriter::RowWriter(RowWriter&&) noexcept = default;
RowWriter& RowWriter::operator=(RowWriter&&) noexcept = default;

void RowWriter::write(std::size_t first, MatrixView<const float> block) {
  const std::size_t start = file_->start + first * row_bytes(block.cols);
  if (block.stride == block.cols) {
    file_->output.write_at(start, std::as_bytes(std::span(block.data, block.rows * block.cols)));
    return;
  }
  for (std::size_t r = 0; r < block.rows; ++r) {
    file_->output.write_at(start + r * row_bytes(block.cols), std::as_bytes(block.row(r)));
  }
}

void RowWriter::finish() { file_->output.finish(io::Durability::renamed); }

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

}  // namespace kedge
