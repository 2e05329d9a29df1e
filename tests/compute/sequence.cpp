// SPDX-License-Identifier: Apache-2.0
#include "compute/sequence.h"

#include "compute/operation_cases.h"

#include <algorithm>

namespace kedge::test {
namespace {

constexpr float kTemperature = 1.5F;

std::unique_ptr<Tensor> random_tensor(Backend& backend, std::size_t rows, std::size_t cols, std::uint64_t seed) {
  auto tensor = backend.make(rows, cols);
  const Matrix values = quick_random(rows, cols, seed);
  backend.upload(values.view(), tensor->panel());
  return tensor;
}

}  // namespace

Sequence::Sequence(Backend& backend, Parts parts) : backend_(backend), parts_(parts) {
  logits_ = random_tensor(backend, kAnchors, kRows, 1);
  for (auto* tensor : {&mixture_, &dmixture_, &first_moment_, &second_moment_}) *tensor = backend.make(kAnchors, kRows);
  inner_ = backend.make(kAnchors, 1);
  losses_ = backend.make(1, kParts);
  log_ = backend.make(5, kParts);
  taken_ = backend.make_integers(1);
  for (std::size_t i = 0; i < kParts; ++i) {
    const std::size_t dim = 30 + 7 * i;
    part_[i] = {dim,
                random_tensor(backend, kRows, dim, 10 + i),
                backend.make(kAnchors, dim),
                backend.make(kAnchors, dim),
                backend.make(kAnchors, 1),
                backend.make(kAnchors, kAnchors),
                backend.make(kAnchors, kRows)};
  }
  backend.softmax_rows(logits_->panel(), kTemperature, mixture_->panel());
}

void Sequence::work(std::size_t i) {
  Part& part = part_[i];
  backend_.gemm_nn(1, mixture_->panel(), part.rows->panel(), 0, part.anchors->panel());
  backend_.normalize_rows(part.anchors->panel(), part.unit->panel(), part.lengths->panel());
  backend_.gram(part.unit->panel(), part.gram->panel());
  backend_.orthogonality(part.gram->panel(), 1, losses_->panel().columns(i, 1));
  backend_.gemm_nn(1, part.gram->panel(), part.unit->panel(), 0, part.anchors->panel());
  backend_.gemm_nt(1, part.anchors->panel(), part.rows->panel(), 0, part.dmixture->panel());
}

void Sequence::step() {
  if (parts_ == Parts::side_by_side) {
    backend_.side_by_side(kParts, [this](std::size_t i) { work(i); });
  } else {
    for (std::size_t i = 0; i < kParts; ++i) work(i);
  }
  backend_.fill(dmixture_->panel(), 0);
  for (Part& part : part_) {
    backend_.gemm_nn(1, part.gram->panel(), part.dmixture->panel(), 1, dmixture_->panel());
  }
  backend_.row_dots(mixture_->panel(), dmixture_->panel(), inner_->panel());
  backend_.end_step(losses_->panel(), log_->panel(), *taken_);
  const AdamStep adam{0.01F, 0.9F, 0.999F, 1e-8F, 0, taken_->data()};
  backend_.step_logits(dmixture_->panel(), inner_->panel(), kTemperature, adam, logits_->panel(),
                       first_moment_->panel(), second_moment_->panel(), mixture_->panel());
}

std::vector<Matrix> Sequence::read() {
  std::vector<Matrix> all;
  for (auto* tensor : {&logits_, &mixture_, &first_moment_, &second_moment_, &log_}) {
    const Panel panel = (*tensor)->panel();
    backend_.download(panel, all.emplace_back(panel.rows, panel.cols).view());
  }
  return all;
}

bool same_bits(const Matrix& a, const Matrix& b) {
  return std::ranges::equal(std::as_bytes(a.cells()), std::as_bytes(b.cells()));
}

bool same_bits(const std::vector<Matrix>& a, const std::vector<Matrix>& b) {
  return std::ranges::equal(a, b, [](const Matrix& x, const Matrix& y) { return same_bits(x, y); });
}

}  // namespace kedge::test
