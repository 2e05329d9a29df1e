// SPDX-License-Identifier: Apache-2.0
#include "train/whitened.h"

#include "base/eigen.h"

#include <algorithm>

namespace kedge {
namespace {

constexpr std::size_t kBlockValues = std::size_t{1} << 21;

Panel rows_of(Panel panel, std::size_t first, std::size_t count) {
  return {panel.data + first * panel.stride, count, panel.cols, panel.stride};
}

void whiten_space(Backend& backend, const Space& space, const Whitening& whitening, Panel to,
                  const Progress& progress) {
  const std::size_t block_rows = std::clamp<std::size_t>(kBlockValues / space.dim(), 1, space.rows());
  const EigenRows<float> whitener = as_eigen(whitening.whitener.view()).cast<float>();
  Matrix64 buffer(block_rows, space.dim());
  Matrix white(block_rows, space.dim());
  EigenRows<float> centred;
  for (std::size_t first = 0; first < space.rows(); first += block_rows) {
    const std::size_t rows = std::min(block_rows, space.rows() - first);
    const auto block = buffer.view().middle_rows(0, rows);
    space.read(first, block);
    space.source().release(space.range().begin + first, rows);
    // The mean may be far larger than what varies around it, so it is taken off before the cast.
    centred = (as_eigen(block).rowwise() - as_eigen(std::span(whitening.mean))).cast<float>();
    as_eigen(white.view().middle_rows(0, rows)).noalias() = centred * whitener;
    backend.upload(white.view().middle_rows(0, rows), rows_of(to, first, rows));
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
