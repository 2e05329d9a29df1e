// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/objective.h"
#include "base/eigen.h"
#include "base/parallel.h"

#include <kedge/device.h>

#include <algorithm>

namespace kedge {
namespace {

// Enough to make starting a thread cheap beside reading.
constexpr std::size_t kValuesOfAThread = std::size_t{1} << 20;

/// The mean may be far larger than what varies around it, so it is taken off before the cast.
void take_off(std::span<const double> mean, MatrixView<const double> from, MatrixView<float> to) {
  as_eigen(to) = (as_eigen(from).rowwise() - as_eigen(mean)).template cast<float>();
}
void take_off(std::span<const double> mean, MatrixView<float> in_place) {
  for (std::size_t r = 0; r < in_place.rows; ++r) {
    float* const row = in_place.row(r).data();
    for (std::size_t c = 0; c < in_place.cols; ++c) row[c] = static_cast<float>(row[c] - mean[c]);
  }
}

/// On all threads, because the product that follows waits for it.
void read_centred(const Space& space, std::span<const double> mean, std::size_t first, MatrixView<float> to) {
  const unsigned workers = threads();
  const std::size_t share = (to.rows + workers - 1) / workers;
  const bool narrow = space.source().fits_float32();
  parallel_blocks(to.rows, share, workers, [&] {
    return [&, buffer = Matrix64(narrow ? 0 : share, space.dim())](std::size_t row, std::size_t rows) mutable {
      const auto own = to.middle_rows(row, rows);
      if (narrow) {
        space.read(first + row, own);
        take_off(mean, own);
      } else {
        const auto block = buffer.view().middle_rows(0, rows);
        space.read(first + row, block);
        take_off(mean, block, own);
      }
    };
  });
}

/// Transposed, as affine() takes it.
std::unique_ptr<Tensor> upload_whitener(Backend& backend, const Whitening& whitening) {
  const std::size_t dim = whitening.mean.size();
  const Matrix transposed = matrix_of<float>(as_eigen(whitening.whitener.view()).transpose());
  auto whitener = backend.make(dim, dim);
  backend.upload(transposed.view(), whitener->panel());
  return whitener;
}

void whiten_space(Backend& backend, const Space& space, const Whitening& whitening, Panel to,
                  const Progress& progress) {
  const std::size_t dim = space.dim();
  const std::size_t block_rows = std::clamp<std::size_t>(threads() * kValuesOfAThread / dim, 1, space.rows());
  const auto whitener = upload_whitener(backend, whitening);
  const auto no_bias = backend.make(1, dim);
  Matrix centred(block_rows, dim);
  const auto staging = backend.make(block_rows, dim);
  for (std::size_t first = 0; first < space.rows(); first += block_rows) {
    const std::size_t rows = std::min(block_rows, space.rows() - first);
    const auto block = centred.view().middle_rows(0, rows);
    read_centred(space, whitening.mean, first, block);
    backend.upload(block, staging->panel().top_rows(rows));
    backend.affine(staging->panel().top_rows(rows), whitener->panel(), no_bias->panel(), true,
                   to.middle_rows(first, rows));
    if (progress) progress({"whitening " + space.name(), first + rows, space.rows(), ""});
  }
}

}  // namespace

WhitenedSpaces whiten_spaces(Backend& backend, std::span<const Space> spaces, std::span<const Whitening> whitenings,
                             const Progress& progress) {
  WhitenedSpaces result;
  std::size_t width = 0;
  for (const Space& space : spaces) {
    result.dims.push_back(space.dim());
    width += space.dim();
  }
  result.rows = backend.make(spaces.front().rows(), width);
  std::size_t first = 0;
  for (std::size_t i = 0; i < spaces.size(); ++i) {
    whiten_space(backend, spaces[i], whitenings[i], result.rows->panel().columns(first, spaces[i].dim()), progress);
    first += spaces[i].dim();
  }
  return result;
}

}  // namespace kedge
