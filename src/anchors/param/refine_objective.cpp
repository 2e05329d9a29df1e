// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/refine_objective.h"

#include <numeric>
#include <utility>

namespace kedge {

RefineObjective::RefineObjective(Backend& backend, WhitenedSpaces spaces, ConstPanel regressors, std::size_t anchors,
                                 std::size_t batch, double tau)
    : backend_(backend),
      spaces_(std::move(spaces)),
      regressors_(regressors),
      alignment_(backend, spaces_.dims.size(), batch, anchors, tau),
      ids_(backend.make_integers(batch)),
      x_(backend.make(batch, regressors.cols)),
      anchors_(backend.make(anchors, regressors.cols)),
      danchors_(backend.make(anchors, regressors.cols)),
      losses_(backend.make(1, alignment_.pairs())) {
  for (std::size_t i = 0; i < spaces_.dims.size(); ++i) products_.push_back(backend.make(batch, anchors));
}

/// Calls work(space, its first column, its dim) for all of them, side by side.
void RefineObjective::for_spaces(const std::function<void(std::size_t, std::size_t, std::size_t)>& work) {
  backend_.side_by_side(spaces_.dims.size(), [&](std::size_t i) {
    const auto before = std::span(spaces_.dims).first(i);
    work(i, std::accumulate(before.begin(), before.end(), std::size_t{0}), spaces_.dims[i]);
  });
}

double RefineObjective::evaluate(ConstPanel targets, std::span<const std::uint32_t> rows,
                                 std::optional<Panel> dtargets) {
  const Panel x = x_->panel().top_rows(rows.size());
  backend_.upload(rows, *ids_);
  backend_.fill(losses_->panel(), 0);
  backend_.gather_rows(spaces_.rows->panel(), {ids_->data(), rows.size()}, x);
  backend_.gemm_nn(1, targets, regressors_, 0, anchors_->panel());
  for_spaces([&](std::size_t i, std::size_t first, std::size_t dim) {
    const Panel products = products_[i]->panel().top_rows(rows.size());
    backend_.gemm_nt(1, x.columns(first, dim), anchors_->panel().columns(first, dim), 0, products);
    alignment_.take(i, products);
  });
  alignment_.align(rows.size(), 1, losses_->panel());
  if (dtargets) {
    for_spaces([&](std::size_t i, std::size_t first, std::size_t dim) {
      const Panel products = products_[i]->panel().top_rows(rows.size());
      backend_.fill(products, 0);
      alignment_.give(i, products);
      backend_.gemm_tn(1, products, x.columns(first, dim), 0, danchors_->panel().columns(first, dim));
    });
    backend_.gemm_nt(1, danchors_->panel(), regressors_, 0, *dtargets);
  }
  Matrix losses(1, alignment_.pairs());
  backend_.download(losses_->panel(), losses.view());
  return std::accumulate(losses.cells().begin(), losses.cells().end(), 0.0);
}

}  // namespace kedge
