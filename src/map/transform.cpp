// SPDX-License-Identifier: Apache-2.0
#include "base/arithmetic.h"
#include "base/parallel.h"
#include "base/wording.h"
#include "compute/device.h"
#include "compute/threads.h"
#include "io/outputs.h"
#include "map/fold.h"

#include <kedge/rows.h>

#include <algorithm>
#include <mutex>

namespace kedge {
namespace {

/// Rows per block: a multiple of what the writer likes.
std::size_t block_rows(const RowFunction& function, std::size_t values) {
  const std::size_t fitting = values / (function.input_dim + function.output_dim);
  return std::max(RowWriter::kAlignment, fitting / RowWriter::kAlignment * RowWriter::kAlignment);
}

/// An embedding far outside what the map was made from can leave float32.
void require_finite(const RowFunction& function, const Space& input, std::size_t first, MatrixView<const float> rr) {
  if (all_finite(std::span(rr.data, rr.rows * rr.cols))) return;
  std::size_t row = 0;
  while (all_finite(rr.row(row))) ++row;
  refuse_file(
      "row {} of {} is too large for the map of '{}': its result does not fit in float32; is it scaled like the "
      "embeddings the map was made from?",
      input.file_row(first + row), input.source().label(), function.space);
}

/// Rows become unit rows before they are multiplied, which makes cosines of the products.
class UnitRowWorker final : public RowWorker {
 public:
  explicit UnitRowWorker(std::unique_ptr<RowWorker> products) : products_(std::move(products)) {}
  MatrixView<float> input(std::size_t rows) override { return products_->input(rows); }
  MatrixView<float> apply(std::size_t rows) override {
    normalize_rows(products_->input(rows));
    return products_->apply(rows);
  }

 private:
  std::unique_ptr<RowWorker> products_;
};

MakeRowWorker workers_of(const RelativeMap& map, Device device, Precision precision) {
  if (map.kernel()) {
    return kernel_workers(kernel_function(map), device, precision);
  }
  switch (map.similarity()) {
    case Similarity::wip:
    case Similarity::inner: return affine_workers(map.weight().view(), map.bias(), device, precision);
    case Similarity::cosine: {
      const auto no_bias = std::make_shared<const std::vector<float>>(map.output_dim());
      const MakeRowWorker products = affine_workers(map.weight().view(), *no_bias, device, precision);
      return
          [no_bias, products](std::size_t most_rows) { return std::make_unique<UnitRowWorker>(products(most_rows)); };
    }
    case Similarity::euclidean:
    case Similarity::angular:
    case Similarity::manhattan: break;
  }
  if (off_processor(device)) {
    refuse("the map of '{}' has the similarity {}, which is computed on the processor only; use {}", map.space(),
           to_string(map.similarity()), option_words("device", "cpu"));
  }
  return function_workers(map.input_dim(), map.output_dim(),
                          [&map](MatrixView<const float> x, MatrixView<float> rr) { map.apply(x, rr); });
}

}  // namespace

void stream(const RowFunction& function, const Space& input, const std::string& output_path,
            const StreamOptions& options, const Progress& progress) {
  require_other_file(output_path, input.source().file(), options.in_place);
  if (input.dim() != function.input_dim) {
    refuse_file("'{}' expects embeddings of {} values, but {} has {}; was it made by another encoder?", function.space,
                function.input_dim, input.source().label(), input.dim());
  }
  RowWriter writer(output_path, input.rows(), function.output_dim);
  const RowFlow flow = row_flow(options.device);
  const std::size_t block = block_rows(function, flow.block_values);
  std::mutex progress_lock;
  std::size_t done = 0;
  parallel_blocks(input.rows(), block, flow.workers, [&] {
    // A short input needs no long buffers, and pinned ones take their time to get.
    auto worker = function.make_worker(std::min(block, input.rows()));
    return [&, worker = std::move(worker)](std::size_t first, std::size_t rows) {
      input.read(first, worker->input(rows));
      const MatrixView<float> out = worker->apply(rows);
      require_finite(function, input, first, out);
      if (options.normalize) normalize_rows(out);
      writer.write(first, out);
      const std::scoped_lock lock(progress_lock);
      done += rows;
      if (progress) progress({function.doing, done, input.rows(), ""});
    };
  });
  writer.finish(options.in_place);
}

void transform(const RelativeMap& map, const Space& input, const std::string& output_path, const StreamOptions& options,
               const Progress& progress) {
  const Work work;
  require_device(options.device);
  stream({map.space(), "transforming", map.input_dim(), map.output_dim(),
          workers_of(map, options.device, options.precision)},
         input, output_path, options, progress);
}

}  // namespace kedge
