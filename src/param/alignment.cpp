// SPDX-License-Identifier: Apache-2.0
#include "param/alignment.h"

#include <algorithm>

namespace kedge {

namespace {

constexpr std::size_t kMostParts = 2;  // what normalize_rows_backward adds up

}  // namespace

Alignment::Alignment(Backend& backend, std::size_t spaces, std::size_t batch, std::size_t anchors, double tau)
    : backend_(backend), tau_(static_cast<float>(tau)), parts_(std::min({backend.at_once(), spaces - 1, kMostParts})) {
  for (std::size_t i = 0; i < spaces; ++i) {
    sides_.push_back({backend.make(batch, anchors), backend.make(batch, 1), {}});
    for (std::size_t part = 0; part < parts_; ++part) sides_[i].drr.push_back(backend.make(batch, anchors));
    for (std::size_t j = i + 1; j < spaces; ++j) pairs_.push_back({i, j});
  }
  const std::size_t at_once = std::min(pairs_.size(), backend.at_once());
  for (std::size_t i = 0; i < at_once; ++i) cosines_.push_back(backend.make(batch, batch));
}

void Alignment::take(std::size_t space, ConstPanel products) {
  Side& side = sides_[space];
  backend_.normalize_rows(products, side.rr->panel().top_rows(products.rows),
                          side.lengths->panel().top_rows(products.rows));
}

void Alignment::align(std::size_t rows, double weight, Panel losses) {
  const Weighted weighted{1 / static_cast<float>(pairs_.size()), static_cast<float>(weight)};
  for (std::size_t first = 0; first < pairs_.size(); first += cosines_.size()) {
    const std::size_t end = std::min(first + cosines_.size(), pairs_.size());
    backend_.side_by_side(end - first, [&](std::size_t i) {
      const auto [a, b] = pairs_[first + i];
      const Panel own = cosines(first + i, rows);
      backend_.gemm_nt(1, sides_[a].rr->panel().top_rows(rows), sides_[b].rr->panel().top_rows(rows), 0, own);
      backend_.symmetric_nce(own, tau_, weighted, losses.columns(first + i, 1));
    });
    backend_.side_by_side(sides_.size() * parts_,
                          [&](std::size_t i) { pass_back(i / parts_, i % parts_, first, end, rows); });
  }
}

Panel Alignment::cosines(std::size_t pair, std::size_t rows) {
  const Panel all = cosines_[pair % cosines_.size()]->panel();
  return {all.data, rows, rows, all.stride};
}

/// Adds what these pairs say about one space to a part of its gradient; the first pair of a part starts the sum.
void Alignment::pass_back(std::size_t space, std::size_t part, std::size_t first_pair, std::size_t end_pair,
                          std::size_t rows) {
  const Panel to = sides_[space].drr[part]->panel().top_rows(rows);
  for (std::size_t p = first_pair; p < end_pair; ++p) {
    const auto [a, b] = pairs_[p];
    if (space != a && space != b) continue;
    // Pairs are in order, so those of a space are in the order of their other space.
    const std::size_t turn = space == a ? b - 1 : a;
    if (turn % parts_ != part) continue;
    const float beta = turn < parts_ ? 0 : 1;
    if (space == a) backend_.gemm_nn(1, cosines(p, rows), sides_[b].rr->panel().top_rows(rows), beta, to);
    if (space == b) backend_.gemm_tn(1, cosines(p, rows), sides_[a].rr->panel().top_rows(rows), beta, to);
  }
}

void Alignment::give(std::size_t space, Panel dproducts) {
  Side& side = sides_[space];
  const std::size_t rows = dproducts.rows;
  const ConstPanel more = parts_ > 1 ? side.drr[1]->panel().top_rows(rows) : ConstPanel{};
  backend_.normalize_rows_backward(side.rr->panel().top_rows(rows), side.lengths->panel().top_rows(rows),
                                   side.drr[0]->panel().top_rows(rows), more, 1, dproducts);
}

}  // namespace kedge
