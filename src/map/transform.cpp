// SPDX-License-Identifier: Apache-2.0
#include "base/aligned.h"
#include "base/finite.h"
#include "base/parallel.h"
#include "base/wording.h"
#include "compute/cuda/cuda.h"
#include "compute/threads.h"
#include "map/fold.h"
#include "map/stream.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <kedge/outputs.h>
#include <kedge/relative_map.h>
#include <kedge/rows.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace kedge {
namespace {

constexpr std::size_t kBlockValues = std::size_t{1} << 20;     // near a size that stays in a core's cache
constexpr std::size_t kGpuBlockValues = std::size_t{1} << 22;  // large enough to be worth a round trip

/// Rows per block: a multiple of what the writer likes.
std::size_t block_rows(const RowFunction& function, Device device) {
  const std::size_t values = device == Device::cuda ? kGpuBlockValues : kBlockValues;
  const std::size_t fitting = values / (function.input_dim + function.output_dim);
  return std::max(RowWriter::kAlignment, fitting / RowWriter::kAlignment * RowWriter::kAlignment);
}

/// An embedding far outside what the map was made from can leave float32.
void require_finite(const RowFunction& function, const Space& input, std::size_t first, MatrixView<const float> rr) {
  if (all_finite(std::span(rr.data, rr.rows * rr.cols))) return;
  std::size_t row = 0;
  while (all_finite(rr.row(row))) ++row;
  throw Error(Code::bad_file, fmt::format("row {} of {} is too large for the map of '{}': its result does not fit in "
                                          "float32; is it scaled like the embeddings the map was made from?",
                                          input.file_row(first + row), input.source().label(), function.space));
}

// Threads that wait for the disk leave their core to these.
constexpr unsigned kSpareWorkers = 2;
// Each takes memory of the GPU and of the host that cannot be swapped; so many read faster than a bus carries.
constexpr unsigned kMostGpuWorkers = 16;

unsigned workers_on(Device device) {
  const unsigned all = threads() + kSpareWorkers;
  return device == Device::cuda ? std::min(all, kMostGpuWorkers) : all;
}

class ProcessorWorker final : public RowWorker {
 public:
  using Apply = std::function<void(MatrixView<const float>, MatrixView<float>)>;
  ProcessorWorker(const Apply& apply, std::size_t most_rows, std::size_t input_dim, std::size_t output_dim)
      : apply_(apply), x_(most_rows, input_dim), y_(most_rows, output_dim) {}

  MatrixView<float> input(std::size_t rows) override { return x_.view().middle_rows(0, rows); }
  MatrixView<float> apply(std::size_t rows) override {
    const auto result = y_.view().middle_rows(0, rows);
    apply_(input(rows), result);
    return result;
  }

 private:
  const Apply& apply_;
  PageAlignedMatrix x_, y_;
};

/// Unit rows before the GPU takes the products: cosines, to the last bit of what the processor normalises.
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

MakeRowWorker gpu_rows(const RelativeMap& map, Precision precision) {
  if (map.kernel()) {
    return cuda::kernel_rows(kernel_function(*map.kernel(), map.weight(), map.bias(), map.mean()), precision);
  }
  switch (map.similarity()) {
    case Similarity::wip:
    case Similarity::inner: return cuda::affine_rows(map.weight().view(), map.bias(), precision);
    case Similarity::cosine: {
      const std::vector<float> no_bias(map.output_dim());
      return [products = cuda::affine_rows(map.weight().view(), no_bias, precision)](std::size_t most_rows) {
        return std::make_unique<UnitRowWorker>(products(most_rows));
      };
    }
    case Similarity::euclidean:
    case Similarity::angular:
    case Similarity::manhattan: break;
  }
  throw Error(Code::bad_argument,
              fmt::format("the map of '{}' has the similarity {}, which is computed on the processor only; use {}",
                          map.space(), to_string(map.similarity()), option_words("device", "cpu")));
}

}  // namespace

MakeRowWorker processor_rows(std::size_t input_dim, std::size_t output_dim, ProcessorWorker::Apply apply) {
  return [=, apply = std::make_shared<const ProcessorWorker::Apply>(std::move(apply))](std::size_t most_rows) {
    return std::make_unique<ProcessorWorker>(*apply, most_rows, input_dim, output_dim);
  };
}

void stream(const RowFunction& function, const Space& input, const std::string& output_path,
            const StreamOptions& options, const Progress& progress) {
  require_other_file(output_path, input.source().file(), options.in_place);
  if (input.dim() != function.input_dim) {
    throw Error(Code::bad_file,
                fmt::format("'{}' expects embeddings of {} values, but {} has {}; was it made by another "
                            "encoder?",
                            function.space, function.input_dim, input.source().label(), input.dim()));
  }
  RowWriter writer(output_path, input.rows(), function.output_dim);
  const std::size_t block = block_rows(function, options.device);
  std::mutex progress_lock;
  std::size_t done = 0;
  parallel_blocks(input.rows(), block, workers_on(options.device), [&] {
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

void transform(const RelativeMap& map, const Space& input, const std::string& output_path, const Progress& progress,
               const StreamOptions& options) {
  const Work work;
  require_device(options.device);
  const auto apply = [&map](MatrixView<const float> x, MatrixView<float> rr) { map.apply(x, rr); };
  const MakeRowWorker make_worker = options.device == Device::cuda
                                        ? gpu_rows(map, options.precision)
                                        : processor_rows(map.input_dim(), map.output_dim(), apply);
  stream({map.space(), "transforming", map.input_dim(), map.output_dim(), make_worker}, input, output_path, options,
         progress);
}

}  // namespace kedge
