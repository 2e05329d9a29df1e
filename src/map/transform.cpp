// SPDX-License-Identifier: Apache-2.0
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
std::size_t block_rows(const RelativeMap& map) {
  const std::size_t fitting = kBlockValues / (map.input_dim() + map.output_dim());
  return std::max(RowWriter::kAlignment, fitting / RowWriter::kAlignment * RowWriter::kAlignment);
}

/// An embedding far outside what the map was made from can leave float32.
void require_finite(const RelativeMap& map, const Space& input, std::size_t first, MatrixView<const float> rr) {
  if (all_finite(std::span(rr.data, rr.rows * rr.cols))) return;
  std::size_t row = 0;
  while (all_finite(rr.row(row))) ++row;
  throw Error(Code::bad_file,
              fmt::format("row {} of {} is too large for the map of '{}': its result leaves float32; is it scaled "
                          "as the embeddings the map was made from?",
                          input.range().begin + first + row, input.source().label(), map.space()));
}

// Threads that wait for the disk leave their core to these.
constexpr unsigned kSpareWorkers = 2;

}  // namespace

void transform(const RelativeMap& map, const Space& input, const std::string& output_path, const Progress& progress) {
  if (input.dim() != map.input_dim()) {
    throw Error(Code::bad_file,
                fmt::format("'{}' expects embeddings of {} values, but {} has {}; was it made by another "
                            "encoder?",
                            map.space(), map.input_dim(), input.source().label(), input.dim()));
  }
  RowWriter writer(output_path, input.rows(), map.output_dim());
  const SingleThreadedBlas one_product_per_thread;
  const std::size_t block = block_rows(map);
  std::mutex progress_lock;
  std::size_t done = 0;
  parallel_blocks(input.rows(), block, threads() + kSpareWorkers, [&] {
    auto x = std::make_shared<PageAlignedMatrix>(block, map.input_dim());
    auto rr = std::make_shared<PageAlignedMatrix>(block, map.output_dim());
    return [&, x, rr](std::size_t first, std::size_t rows) {
      const auto in = x->view().middle_rows(0, rows);
      const auto out = rr->view().middle_rows(0, rows);
      input.read(first, in);
      input.source().release(input.range().begin + first, rows);
      map.apply(in, out);
      require_finite(map, input, first, out);
      writer.write(first, out);
      const std::scoped_lock lock(progress_lock);
      done += rows;
      if (progress) progress({"transforming", done, input.rows(), ""});
    };
  });
  writer.finish();
}

}  // namespace kedge
