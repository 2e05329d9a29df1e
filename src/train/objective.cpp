// SPDX-License-Identifier: Apache-2.0
#include "train/objective.h"

#include <algorithm>
#include <array>

namespace kedge {
namespace {

/// Where each loss stands in the row of losses.
enum Which : std::size_t { symnce, coverage, orthogonality, length, count };

Panel rows_of(Panel panel, std::size_t first, std::size_t count) {
  return {panel.data + first * panel.stride, count, panel.cols, panel.stride};
}

bool is_every_row(std::span<const std::uint32_t> ids, std::size_t rows) {
  if (ids.size() != rows) return false;
  for (std::size_t i = 0; i < rows; ++i) {
    if (ids[i] != i) return false;
  }
  return true;
}

float inverse(std::size_t value) {
  return 1 / static_cast<float>(value);
}

}  // namespace

Objective::Objective(Backend& backend, const WhitenedSpaces& spaces, std::span<const std::uint32_t> support,
                     std::size_t anchors, const ParamOptions& options)
    : backend_(backend), options_(options), rows_(spaces.rows->panel()), support_(rows_) {
  const std::size_t width = rows_.cols;
  const std::size_t batch = std::min(options.batch, rows_.rows);
  if (!is_every_row(support, rows_.rows)) {
    own_support_ = backend.make(support.size(), width);
    support_ = own_support_->panel();
    backend.gather_rows(rows_, support, support_);
  }
  row_lengths_ = backend.make(rows_.rows, spaces.dims.size());
  x_ = backend.make(batch, width);
  lengths_ = backend.make(batch, spaces.dims.size());
  for (auto* tensor : {&anchors_, &danchors_, &unit_}) *tensor = backend.make(anchors, width);
  dunit_ = backend.make(anchors, *std::ranges::max_element(spaces.dims));
  gram_ = backend.make(anchors, anchors);
  losses_ = backend.make(1, count);
  std::size_t first = 0;
  for (const std::size_t dim : spaces.dims) {
    Part part{first, dim, backend.make(anchors, 1), backend.make(anchors, 1), backend.make(batch, anchors)};
    backend.row_lengths(rows_.columns(first, dim), row_lengths_->panel().columns(parts_.size(), 1));
    parts_.push_back(std::move(part));
    first += dim;
  }
  if (parts_.size() > 1 && options.weight_symnce != 0) {
    alignment_.emplace(backend, parts_.size(), batch, anchors, options.tau_symnce);
  }
  if (options.coverage_rows == CoverageRows::all) {
    chunk_ = backend.make(std::min(options.coverage_chunk, rows_.rows), anchors);
  }
}

Losses Objective::evaluate(ConstPanel mixture, std::span<const std::uint32_t> batch, Panel dmixture) {
  const std::size_t n = batch.size();
  const Panel x = x_->panel().top_rows(n);
  backend_.fill(losses_->panel(), 0);
  backend_.fill(danchors_->panel(), 0);
  backend_.gemm_nn(1, mixture, support_, 0, anchors_->panel());
  backend_.gather_rows(rows_, batch, x);
  backend_.gather_rows(row_lengths_->panel(), batch, lengths_->panel().top_rows(n));

  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    const Panel anchors = anchors_->panel().columns(part.first, part.dim);
    const Panel products = part.products->panel().top_rows(n);
    backend_.fill(part.pull->panel(), 0);
    backend_.normalize_rows(anchors, unit_->panel().columns(part.first, part.dim), part.anchor_lengths->panel());
    if (alignment_ || !chunk_) backend_.gemm_nt(1, x.columns(part.first, part.dim), anchors, 0, products);
    if (alignment_) alignment_->take(i, products);
    if (chunk_) {
      cover_all_rows(part);
      backend_.fill(products, 0);
    } else {
      cover(part, lengths_->panel().top_rows(n).columns(i, 1), n, products);
    }
  }
  if (alignment_) alignment_->align(n, options_.weight_symnce, loss(symnce));
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    Part& part = parts_[i];
    const Panel products = part.products->panel().top_rows(n);
    shape_anchors(part);
    if (alignment_) alignment_->give(i, products);
    if (chunk_ && !alignment_) continue;
    backend_.gemm_tn(1, products, x.columns(part.first, part.dim), 1, danchors_->panel().columns(part.first, part.dim));
  }
  backend_.gemm_nt(1, danchors_->panel(), support_, 0, dmixture);
  return read_losses();
}

/// Coverage of some rows; leaves the gradient of their products in the products' place.
void Objective::cover(Part& part, ConstPanel lengths, std::size_t total_rows, Panel products) {
  const float share = inverse(parts_.size()) * inverse(total_rows) * inverse(part.dim);
  backend_.coverage(products, lengths, part.anchor_lengths->panel(), static_cast<float>(options_.tau_coverage),
                    {share, static_cast<float>(options_.weight_coverage)}, products, part.pull->panel(),
                    loss(coverage));
}

void Objective::cover_all_rows(Part& part) {
  const auto which = static_cast<std::size_t>(&part - parts_.data());
  const Panel anchors = anchors_->panel().columns(part.first, part.dim);
  for (std::size_t first = 0; first < rows_.rows; first += chunk_->panel().rows) {
    const std::size_t rows = std::min(chunk_->panel().rows, rows_.rows - first);
    const Panel x = rows_of(rows_, first, rows).columns(part.first, part.dim);
    const Panel products = chunk_->panel().top_rows(rows);
    backend_.gemm_nt(1, x, anchors, 0, products);
    cover(part, rows_of(row_lengths_->panel(), first, rows).columns(which, 1), rows_.rows, products);
    backend_.gemm_tn(1, products, x, 1, danchors_->panel().columns(part.first, part.dim));
  }
}

/// The losses that see anchors only: length and orthogonality.
void Objective::shape_anchors(Part& part) {
  const Panel anchors = anchors_->panel().columns(part.first, part.dim);
  const Panel danchors = danchors_->panel().columns(part.first, part.dim);
  const Panel unit = unit_->panel().columns(part.first, part.dim);
  const Panel lengths = part.anchor_lengths->panel();
  const float share = inverse(parts_.size());
  backend_.pull_anchors(anchors, lengths, part.pull->panel(), {share, static_cast<float>(options_.weight_length)},
                        danchors, loss(length));
  if (anchors.rows < 2) return;
  backend_.gram(unit, gram_->panel());
  backend_.orthogonality(gram_->panel(), share, loss(orthogonality));
  const Panel dunit = dunit_->panel().columns(0, part.dim);
  const float scale =
      4 * share * static_cast<float>(options_.weight_orthogonality) * inverse(anchors.rows) * inverse(anchors.rows - 1);
  backend_.gemm_nn(scale, gram_->panel(), unit, 0, dunit);
  backend_.normalize_rows_backward(unit, lengths, dunit, 1, danchors);
}

Losses Objective::read_losses() {
  std::array<float, count> values{};
  backend_.download(losses_->panel(), {values.data(), 1, count, count});
  Losses losses;
  losses.symnce = values[symnce];
  losses.coverage = values[coverage];
  losses.orthogonality = values[orthogonality];
  losses.length = values[length];
  losses.total = options_.weight_symnce * losses.symnce + options_.weight_coverage * losses.coverage +
                 options_.weight_orthogonality * losses.orthogonality + options_.weight_length * losses.length;
  return losses;
}

}  // namespace kedge
