// SPDX-License-Identifier: Apache-2.0
#include "train/refine_objective.h"

#include <utility>

namespace kedge {

RefineObjective::RefineObjective(Backend& backend, WhitenedSpaces spaces, ConstPanel regressors, std::size_t anchors,
                                 std::size_t batch, double tau)
    : backend_(backend),
      spaces_(std::move(spaces)),
      regressors_(regressors),
      alignment_(backend, spaces_.dims.size(), batch, anchors, tau),
      x_(backend.make(batch, regressors.cols)),
      anchors_(backend.make(anchors, regressors.cols)),
      danchors_(backend.make(anchors, regressors.cols)),
      loss_(backend.make(1, 1)) {
  for (std::size_t i = 0; i < spaces_.dims.size(); ++i) products_.push_back(backend.make(batch, anchors));
}

template <class Work>
void RefineObjective::for_spaces(const Work& work) {
  std::size_t first = 0;
  for (std::size_t i = 0; i < spaces_.dims.size(); ++i) {
    work(i, first, spaces_.dims[i]);
    first += spaces_.dims[i];
  }
}

double RefineObjective::evaluate(ConstPanel targets, std::span<const std::uint32_t> rows,
                                 std::optional<Panel> dtargets) {
  const Panel x = x_->panel().top_rows(rows.size());
  backend_.fill(loss_->panel(), 0);
  backend_.gather_rows(spaces_.rows->panel(), rows, x);
  backend_.gemm_nn(1, targets, regressors_, 0, anchors_->panel());
  for_spaces([&](std::size_t i, std::size_t first, std::size_t dim) {
    const Panel products = products_[i]->panel().top_rows(rows.size());
    backend_.gemm_nt(1, x.columns(first, dim), anchors_->panel().columns(first, dim), 0, products);
    alignment_.take(i, products);
  });
  alignment_.align(rows.size(), 1, loss_->panel());
  if (dtargets) {
    for_spaces([&](std::size_t i, std::size_t first, std::size_t dim) {
      const Panel products = products_[i]->panel().top_rows(rows.size());
      backend_.fill(products, 0);
      alignment_.give(i, products);
      backend_.gemm_tn(1, products, x.columns(first, dim), 0, danchors_->panel().columns(first, dim));
    });
    backend_.gemm_nt(1, danchors_->panel(), regressors_, 0, *dtargets);
  }
  float loss = 0;
  backend_.download(loss_->panel(), {&loss, 1, 1, 1});
  return loss;
}

}  // namespace kedge
