// SPDX-License-Identifier: Apache-2.0
#include "train/alignment.h"

namespace kedge {

Alignment::Alignment(Backend& backend, std::size_t spaces, std::size_t batch, std::size_t anchors, double tau)
    : backend_(backend), tau_(static_cast<float>(tau)), cosines_(backend.make(batch, batch)) {
  for (std::size_t i = 0; i < spaces; ++i) {
    sides_.push_back({backend.make(batch, anchors), backend.make(batch, anchors), backend.make(batch, 1)});
  }
}

void Alignment::take(std::size_t space, ConstPanel products) {
  Side& side = sides_[space];
  backend_.normalize_rows(products, side.rr->panel().top_rows(products.rows),
                          side.lengths->panel().top_rows(products.rows));
}

void Alignment::align(std::size_t rows, double weight, Panel loss) {
  const Panel cosines{cosines_->panel().data, rows, rows, cosines_->panel().stride};
  const auto count = static_cast<float>(sides_.size());
  const Weighted weighted{2 / (count * (count - 1)), static_cast<float>(weight)};
  for (Side& side : sides_) backend_.fill(side.drr->panel(), 0);
  for (std::size_t i = 0; i < sides_.size(); ++i) {
    for (std::size_t j = i + 1; j < sides_.size(); ++j) {
      const Panel a = sides_[i].rr->panel().top_rows(rows);
      const Panel b = sides_[j].rr->panel().top_rows(rows);
      backend_.gemm_nt(1, a, b, 0, cosines);
      backend_.symmetric_nce(cosines, tau_, weighted, loss);
      backend_.gemm_nn(1, cosines, b, 1, sides_[i].drr->panel().top_rows(rows));
      backend_.gemm_tn(1, cosines, a, 1, sides_[j].drr->panel().top_rows(rows));
    }
  }
}

void Alignment::give(std::size_t space, Panel dproducts) {
  Side& side = sides_[space];
  backend_.normalize_rows_backward(side.rr->panel().top_rows(dproducts.rows),
                                   side.lengths->panel().top_rows(dproducts.rows),
                                   side.drr->panel().top_rows(dproducts.rows), 1, dproducts);
}

}  // namespace kedge
