// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/objective.h"

#include <algorithm>
#include <ranges>
#include <utility>

namespace kedge {
namespace {

bool is_every_row(std::span<const std::uint32_t> ids, std::size_t rows) {
  return std::ranges::equal(ids, std::views::iota(std::size_t{0}, rows));
}

float inverse(std::size_t value) {
  return 1 / static_cast<float>(value);
}

}  // namespace

Objective::Objective(Backend& backend, const WhitenedSpaces& spaces, std::span<const std::uint32_t> support,
                     std::size_t anchors, const Param& options)
    : backend_(backend), options_(options), rows_(spaces.rows->panel()) {
  const std::size_t width = rows_.cols;
  const std::size_t batch = std::min(options.batch, rows_.rows);
  if (!is_every_row(support, rows_.rows)) {
    const auto ids = backend.make_integers(support.size());
    backend.upload(support, *ids);
    own_support_ = backend.make(support.size(), width);
    backend.gather_rows(rows_, {ids->data(), support.size()}, own_support_->panel());
  }
  support_ = backend.pack(own_support_ ? own_support_->panel() : rows_);
  row_lengths_ = backend.make(rows_.rows, spaces.dims.size());
  x_ = backend.make(batch, width);
  lengths_ = backend.make(batch, spaces.dims.size());
  for (auto* tensor : {&anchors_, &danchors_, &unit_}) *tensor = backend.make(anchors, width);
  inner_ = backend.make(anchors, 1);
  single_batch_ = backend.make_integers(batch);
  make_parts(spaces.dims, batch, anchors);
  if (parts_.size() > 1 && options.weight_symnce != 0) {
    alignment_.emplace(backend, parts_.size(), batch, anchors, options.tau_symnce);
  }
  if (options.coverage_rows == CoverageRows::all) {
    chunk_ = backend.make(std::min(options.coverage_chunk, rows_.rows), anchors);
  }
  losses_ = backend.make(1, place(Kind::count, alignment_ ? alignment_->pairs() : 0));
}

void Objective::make_parts(std::span<const std::size_t> dims, std::size_t batch, std::size_t anchors) {
  std::size_t first = 0;
  for (const std::size_t dim : dims) {
    Part part{first, dim, backend_.make(anchors, 1), backend_.make(anchors, 1), {}, {}, {}};
    part.products = backend_.make(batch, anchors);
    part.gram = backend_.make(anchors, anchors);
    part.dunit = backend_.make(anchors, dim);
    backend_.row_lengths(rows_.columns(first, dim), row_lengths_->panel().columns(parts_.size(), 1));
    parts_.push_back(std::move(part));
    first += dim;
  }
}

// On a GPU, operations that run beside a longer sequence cost next to nothing. The longest one goes from the mixture to
// the pairs of spaces and back, where each operation needs the one before; all else runs beside it.
void Objective::enqueue(ConstPanel mixture, Ids batch, Panel dmixture, const std::function<void()>& meanwhile) {
  const std::size_t spaces = parts_.size();
  const std::size_t n = batch.count;
  backend_.beside([&] { backend_.packed_nn(mixture, *support_, anchors_->panel()); },
                  [&] {
                    backend_.side_by_side(2, [&](std::size_t i) {
                      if (i == 0) backend_.gather_rows(rows_, batch, x_->panel().top_rows(n));
                      if (i == 1) backend_.gather_rows(row_lengths_->panel(), batch, lengths_->panel().top_rows(n));
                    });
                    backend_.side_by_side(spaces, [&](std::size_t i) { backend_.fill(parts_[i].pull->panel(), 0); });
                  });
  backend_.beside([&] { backend_.side_by_side(spaces, [&](std::size_t i) { measure(i, n); }); },
                  [&] { backend_.side_by_side(spaces, [&](std::size_t i) { compare(i); }); });
  backend_.beside(
      [&] {
        if (!alignment_) return;
        const Panel losses = losses_->panel().columns(place(Kind::count, 0), alignment_->pairs());
        alignment_->align(n, options_.weight_symnce, losses);
      },
      [&] { shape(n); });
  backend_.side_by_side(spaces, [&](std::size_t i) { pull_together(i, n); });
  backend_.beside([&] { backend_.packed_nt(danchors_->panel(), *support_, dmixture); },
                  [&] {
                    backend_.row_dots(anchors_->panel(), danchors_->panel(), inner_->panel());
                    if (meanwhile) meanwhile();
                  });
}

/// The products of a batch with the anchors of one space.
void Objective::measure(std::size_t i, std::size_t rows) {
  const Panel products = parts_[i].products->panel().top_rows(rows);
  if (alignment_ || !chunk_) backend_.gemm_nt(1, columns(*x_, i).top_rows(rows), columns(*anchors_, i), 0, products);
  if (alignment_) alignment_->take(i, products);
}

/// The anchors of one space with each other.
void Objective::compare(std::size_t i) {
  Part& part = parts_[i];
  const Panel unit = columns(*unit_, i);
  backend_.normalize_rows(columns(*anchors_, i), unit, part.anchor_lengths->panel());
  if (unit.rows > 1) backend_.gram(unit, part.gram->panel());
}

/// The losses of each space by itself.
void Objective::shape(std::size_t rows) {
  backend_.side_by_side(parts_.size(), [&](std::size_t i) {
    const Panel products = parts_[i].products->panel().top_rows(rows);
    if (chunk_) {
      backend_.fill(products, 0);
    } else {
      cover(i, lengths_->panel().top_rows(rows).columns(i, 1), rows, products);
    }
    turn_away(i);
  });
  if (chunk_) {
    for (std::size_t i = 0; i < parts_.size(); ++i) cover_all_rows(i);
  }
  backend_.side_by_side(parts_.size(), [&](std::size_t i) {
    backend_.pull_rows(columns(*anchors_, i), parts_[i].anchor_lengths->panel(), parts_[i].pull->panel(),
                       {inverse(parts_.size()), static_cast<float>(options_.weight_length)}, columns(*danchors_, i),
                       loss(Kind::length, i));
  });
}

/// Coverage of some rows; leaves the gradient of their products in the products' place.
void Objective::cover(std::size_t i, ConstPanel lengths, std::size_t total_rows, Panel products) {
  const float share = inverse(parts_.size()) * inverse(total_rows) * inverse(parts_[i].dim);
  backend_.coverage(products, lengths, parts_[i].anchor_lengths->panel(), static_cast<float>(options_.tau_coverage),
                    {share, static_cast<float>(options_.weight_coverage)}, products, parts_[i].pull->panel(),
                    loss(Kind::coverage, i));
}

void Objective::cover_all_rows(std::size_t i) {
  const std::size_t most = chunk_->panel().rows;
  for (std::size_t first = 0; first < rows_.rows; first += most) {
    const std::size_t rows = std::min(most, rows_.rows - first);
    const Panel x = rows_.middle_rows(first, rows).columns(parts_[i].first, parts_[i].dim);
    const Panel products = chunk_->panel().top_rows(rows);
    backend_.gemm_nt(1, x, columns(*anchors_, i), 0, products);
    cover(i, row_lengths_->panel().middle_rows(first, rows).columns(i, 1), rows_.rows, products);
    backend_.gemm_tn(1, products, x, 1, columns(*danchors_, i));
  }
}

/// Orthogonality; the first to write the gradient of a space's anchors.
void Objective::turn_away(std::size_t i) {
  Part& part = parts_[i];
  const Panel unit = columns(*unit_, i);
  if (unit.rows < 2) return backend_.fill(columns(*danchors_, i), 0);
  backend_.orthogonality(part.gram->panel(), inverse(parts_.size()), loss(Kind::orthogonality, i));
  const float scale = 4 * inverse(parts_.size()) * static_cast<float>(options_.weight_orthogonality) *
                      inverse(unit.rows) * inverse(unit.rows - 1);
  backend_.gemm_nn(scale, part.gram->panel(), unit, 0, part.dunit->panel());
  backend_.normalize_rows_backward(unit, part.anchor_lengths->panel(), part.dunit->panel(), 0, columns(*danchors_, i));
}

/// The last part of the gradient: what comes through the products of rows and anchors.
void Objective::pull_together(std::size_t i, std::size_t rows) {
  const Panel products = parts_[i].products->panel().top_rows(rows);
  if (alignment_) alignment_->give(i, products);
  if (chunk_ && !alignment_) return;
  backend_.gemm_tn(1, products, columns(*x_, i).top_rows(rows), 1, columns(*danchors_, i));
}

Losses Objective::losses_of(std::span<const float> row) const {
  const auto sum = [&](Kind kind, std::size_t count) {
    double total = 0;
    for (std::size_t i = 0; i < count; ++i) total += row[place(kind, i)];
    return total;
  };
  Losses losses;
  losses.coverage = sum(Kind::coverage, parts_.size());
  losses.orthogonality = sum(Kind::orthogonality, parts_.size());
  losses.length = sum(Kind::length, parts_.size());
  losses.symnce = sum(Kind::count, alignment_ ? alignment_->pairs() : 0);
  losses.total = options_.weight_symnce * losses.symnce + options_.weight_coverage * losses.coverage +
                 options_.weight_orthogonality * losses.orthogonality + options_.weight_length * losses.length;
  return losses;
}

Losses Objective::evaluate(ConstPanel mixture, std::span<const std::uint32_t> batch, Panel dmixture) {
  backend_.upload(batch, *single_batch_);
  backend_.fill(losses_->panel(), 0);
  enqueue(mixture, {single_batch_->data(), batch.size()}, dmixture);
  Matrix values(1, losses_->panel().cols);
  backend_.download(losses_->panel(), values.view());
  return losses_of(values.row(0));
}

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
