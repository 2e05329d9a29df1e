// SPDX-License-Identifier: Apache-2.0
#include "map/stream.h"

#include "backend/threads.h"
#include "base/aligned.h"
#include "base/finite.h"
#include "base/parallel.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <kedge/relative_map.h>
#include <kedge/rows.h>

#include <algorithm>
#include <memory>
#include <mutex>

namespace kedge {
namespace {

constexpr std::size_t kBlockValues = std::size_t{1} << 20;

/// Rows per block: a multiple of what the writer likes, near a size that stays in a core's cache.
std::size_t block_rows(const RowFunction& function) {
  const std::size_t fitting = kBlockValues / (function.input_dim + function.output_dim);
  return std::max(RowWriter::kAlignment, fitting / RowWriter::kAlignment * RowWriter::kAlignment);
}

/// An embedding far outside what the map was made from can leave float32.
void require_finite(const RowFunction& function, const Space& input, std::size_t first, MatrixView<const float> rr) {
  if (all_finite(std::span(rr.data, rr.rows * rr.cols))) return;
  std::size_t row = 0;
  while (all_finite(rr.row(row))) ++row;
  throw Error(Code::bad_file,
              fmt::format("row {} of {} is too large for the map of '{}': its result leaves float32; is it scaled "
                          "as the embeddings the map was made from?",
                          input.range().begin + first + row, input.source().label(), function.space));
}

// Threads that wait for the disk leave their core to these.
constexpr unsigned kSpareWorkers = 2;

}  // namespace

void stream(const RowFunction& function, const Space& input, const std::string& output_path, const Progress& progress) {
  if (input.dim() != function.input_dim) {
    throw Error(Code::bad_file,
                fmt::format("'{}' expects embeddings of {} values, but {} has {}; was it made by another "
                            "encoder?",
                            function.space, function.input_dim, input.source().label(), input.dim()));
  }
  RowWriter writer(output_path, input.rows(), function.output_dim);
  const SingleThreadedBlas one_product_per_thread;
  const std::size_t block = block_rows(function);
  std::mutex progress_lock;
  std::size_t done = 0;
  parallel_blocks(input.rows(), block, threads() + kSpareWorkers, [&] {
    auto x = std::make_shared<PageAlignedMatrix>(block, function.input_dim);
    auto rr = std::make_shared<PageAlignedMatrix>(block, function.output_dim);
    return [&, x, rr](std::size_t first, std::size_t rows) {
      const auto in = x->view().middle_rows(0, rows);
      const auto out = rr->view().middle_rows(0, rows);
      input.read(first, in);
      input.source().release(input.range().begin + first, rows);
      function.apply(in, out);
      require_finite(function, input, first, out);
      writer.write(first, out);
      const std::scoped_lock lock(progress_lock);
      done += rows;
      if (progress) progress({function.doing, done, input.rows(), ""});
    };
  });
  writer.finish();
}

void transform(const RelativeMap& map, const Space& input, const std::string& output_path, const Progress& progress) {
  const auto apply = [&map](MatrixView<const float> x, MatrixView<float> rr) { map.apply(x, rr); };
  stream({map.space(), "transforming", map.input_dim(), map.output_dim(), apply}, input, output_path, progress);
}

}  // namespace kedge
