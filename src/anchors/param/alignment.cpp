// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/alignment.h"

namespace kedge {

Alignment::Alignment(Backend& backend, std::size_t spaces, std::size_t batch, std::size_t anchors, double tau)
    : backend_(backend), tau_(static_cast<float>(tau)), directions_(backend.make(2 * (spaces - 1) * batch, anchors)) {
  for (std::size_t i = 0; i < spaces; ++i) {
    sides_.push_back({backend.make(batch, 1), backend.make(batch, (spaces - 1) * batch), backend.make(batch, anchors)});
    for (std::size_t j = i + 1; j < spaces; ++j) pairs_.push_back({i, j});
  }
}

std::size_t Alignment::floats_needed(std::size_t spaces, std::size_t batch, std::size_t anchors) {
  return spaces < 2 ? 0 : spaces * (spaces - 1) * batch * batch + (3 * spaces - 2) * batch * anchors;
}

void Alignment::take(std::size_t space, ConstPanel products) {
  const std::size_t rows = products.rows, spaces = sides_.size();
  const Panel again = space + 2 < spaces ? directions(spaces + space, rows) : Panel{};
  backend_.normalize_rows(products, directions(space, rows), sides_[space].lengths->panel().top_rows(rows), again);
}

void Alignment::align(std::size_t rows, double weight, Panel losses) {
  const Weighted weighted{1 / static_cast<float>(pairs_.size()), static_cast<float>(weight)};
  backend_.side_by_side(pairs_.size(), [&](std::size_t i) {
    const auto [a, b] = pairs_[i];
    const Panel own = cosines(a, b, rows);
    backend_.gemm_nt(1, directions(a, rows), directions(b, rows), 0, own);
    backend_.symmetric_nce(own, cosines(b, a, rows), tau_, weighted, losses.columns(i, 1));
  });
  backend_.side_by_side(sides_.size(), [&](std::size_t i) {
    const std::size_t others = sides_.size() - 1;
    backend_.gemm_nn(1, sides_[i].cosines->panel().top_rows(rows).columns(0, others * rows),
                     directions((i + 1) % sides_.size(), rows, others), 0,
                     sides_[i].ddirections->panel().top_rows(rows));
  });
}

void Alignment::give(std::size_t space, Panel dproducts) {
  const std::size_t rows = dproducts.rows;
  backend_.normalize_rows_backward(directions(space, rows), sides_[space].lengths->panel().top_rows(rows),
                                   sides_[space].ddirections->panel().top_rows(rows), 1, dproducts);
}

Panel Alignment::directions(std::size_t place, std::size_t rows, std::size_t spaces) {
  return directions_->panel().middle_rows(place * rows, spaces * rows);
}

Panel Alignment::cosines(std::size_t space, std::size_t other, std::size_t rows) {
  const std::size_t place = (other + sides_.size() - space - 1) % sides_.size();
  return sides_[space].cosines->panel().top_rows(rows).columns(place * rows, rows);
}

}  // namespace kedge
