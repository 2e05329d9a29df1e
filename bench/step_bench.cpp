// SPDX-License-Identifier: Apache-2.0
// One optimisation step of PARAM on random data: step_bench ROWS SUPPORT ANCHORS BATCH STEPS DIM...
// Prints JSON: milliseconds per step, those inside its matrix products, and those of every other operation.
#include "anchors/param/trainer.h"
#include "compute/backend.h"
#include "compute/threads.h"

#include <kedge/kedge.h>

#include <chrono>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

namespace {

using kedge::ConstPanel;
using kedge::Panel;
using kedge::Weighted;

/// Passes every operation on and adds up the time it took, matrix products apart from the rest.
class TimedBackend final : public kedge::Backend {
 public:
  explicit TimedBackend(std::unique_ptr<kedge::Backend> inner) : inner_(std::move(inner)) {}
  double products_ms = 0;
  std::map<std::string, double> others_ms;
  void reset() {
    products_ms = 0;
    others_ms.clear();
  }

  std::unique_ptr<kedge::Tensor> make(std::size_t rows, std::size_t cols) override { return inner_->make(rows, cols); }
  std::unique_ptr<kedge::Integers> make_integers(std::size_t count) override { return inner_->make_integers(count); }
  void upload(kedge::MatrixView<const float> from, Panel to) override { inner_->upload(from, to); }
  void upload(std::span<const std::uint32_t> from, kedge::Integers& to) override { inner_->upload(from, to); }
  void download(ConstPanel from, kedge::MatrixView<float> to) override { inner_->download(from, to); }
  void gemm_nn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    timed(products_ms, [&] { inner_->gemm_nn(alpha, a, b, beta, c); });
  }
  void gemm_nt(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    timed(products_ms, [&] { inner_->gemm_nt(alpha, a, b, beta, c); });
  }
  void gemm_tn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    timed(products_ms, [&] { inner_->gemm_tn(alpha, a, b, beta, c); });
  }
  void gram(ConstPanel a, Panel c) override {
    timed(products_ms, [&] { inner_->gram(a, c); });
  }
  std::unique_ptr<kedge::Packed> pack(ConstPanel matrix) override { return inner_->pack(matrix); }
  void packed_nn(ConstPanel a, kedge::Packed& b, Panel c) override {
    timed(products_ms, [&] { inner_->packed_nn(a, b, c); });
  }
  void packed_nt(ConstPanel a, kedge::Packed& b, Panel c) override {
    timed(products_ms, [&] { inner_->packed_nt(a, b, c); });
  }
  void affine(ConstPanel x, ConstPanel w, ConstPanel b, bool exact, Panel y) override {
    timed(products_ms, [&] { inner_->affine(x, w, b, exact, y); });
  }
  void fill(Panel x, float value) override {
    timed(others_ms["fill"], [&] { inner_->fill(x, value); });
  }
  void gather_rows(ConstPanel from, kedge::Ids ids, Panel to) override {
    timed(others_ms["gather_rows"], [&] { inner_->gather_rows(from, ids, to); });
  }
  void row_lengths(ConstPanel x, Panel lengths) override {
    timed(others_ms["row_lengths"], [&] { inner_->row_lengths(x, lengths); });
  }
  void row_dots(ConstPanel x, ConstPanel y, Panel dots) override {
    timed(others_ms["row_dots"], [&] { inner_->row_dots(x, y, dots); });
  }
  void normalize_rows(ConstPanel x, Panel unit, Panel lengths, Panel again) override {
    timed(others_ms["normalize_rows"], [&] { inner_->normalize_rows(x, unit, lengths, again); });
  }
  void normalize_rows_backward(ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta, Panel dx) override {
    timed(others_ms["normalize_rows_backward"],
          [&] { inner_->normalize_rows_backward(unit, lengths, dunit, beta, dx); });
  }
  void coverage(ConstPanel r, ConstPanel xl, ConstPanel al, float tau, Weighted w, Panel dr, Panel pull,
                Panel loss) override {
    timed(others_ms["coverage"], [&] { inner_->coverage(r, xl, al, tau, w, dr, pull, loss); });
  }
  void pull_rows(ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted w, Panel da, Panel loss) override {
    timed(others_ms["pull_rows"], [&] { inner_->pull_rows(a, lengths, pull, w, da, loss); });
  }
  void orthogonality(ConstPanel gram, float share, Panel loss) override {
    timed(others_ms["orthogonality"], [&] { inner_->orthogonality(gram, share, loss); });
  }
  void symmetric_nce(Panel cosines, Panel turned, float tau, Weighted w, Panel loss) override {
    timed(others_ms["symmetric_nce"], [&] { inner_->symmetric_nce(cosines, turned, tau, w, loss); });
  }
  void softmax_rows(ConstPanel logits, float temperature, Panel mixture) override {
    timed(others_ms["softmax_rows"], [&] { inner_->softmax_rows(logits, temperature, mixture); });
  }
  void step_logits(ConstPanel dp, ConstPanel inner, float temperature, const kedge::AdamStep& adam, Panel q, Panel m,
                   Panel v, Panel p) override {
    timed(others_ms["step_logits"], [&] { inner_->step_logits(dp, inner, temperature, adam, q, m, v, p); });
  }
  void step_values(ConstPanel dx, const kedge::AdamStep& adam, Panel x, Panel m, Panel v) override {
    timed(others_ms["step_values"], [&] { inner_->step_values(dx, adam, x, m, v); });
  }
  void end_step(Panel losses, Panel log, kedge::Integers& taken) override {
    timed(others_ms["end_step"], [&] { inner_->end_step(losses, log, taken); });
  }

 private:
  template <class Work>
  static void timed(double& milliseconds, const Work& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    milliseconds += std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }
  std::unique_ptr<kedge::Backend> inner_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 7) {
    std::cerr << "usage: step_bench ROWS SUPPORT ANCHORS BATCH STEPS DIM...\n";
    return 2;
  }
  std::vector<std::size_t> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::stoul(argv[i]));
  const std::size_t rows = sizes[0], support = sizes[1], anchors = sizes[2], batch = sizes[3], steps = sizes[4];
  const kedge::Work work;  // as in a fit
  const auto backend = std::make_unique<TimedBackend>(kedge::make_cpu_backend());

  kedge::WhitenedSpaces spaces;
  spaces.dims.assign(sizes.begin() + 5, sizes.end());
  const std::size_t width = std::accumulate(spaces.dims.begin(), spaces.dims.end(), std::size_t{0});
  spaces.rows = backend->make(rows, width);
  std::mt19937 engine(0);
  std::normal_distribution<float> normal;
  kedge::Matrix row(1, width);
  for (std::size_t i = 0; i < rows; ++i) {
    for (float& value : row.cells()) value = normal(engine);
    const Panel all = spaces.rows->panel();
    backend->upload(std::as_const(row).view(), {all.data + i * all.stride, 1, width, all.stride});
  }
  std::vector<std::uint32_t> ids(support);
  std::iota(ids.begin(), ids.end(), 0U);
  kedge::Param options;
  options.batch = batch;
  kedge::Trainer trainer(*backend, spaces, ids, anchors, options, 0);
  for (int warm = 0; warm < 3; ++warm) trainer.step();
  backend->reset();
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < steps; ++i) trainer.step();
  const double total = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  const auto per_step = static_cast<double>(steps);
  nlohmann::json others;
  for (const auto& [name, ms] : backend->others_ms) others[name] = ms / per_step;
  std::cout << nlohmann::json({{"ms_per_step", total / per_step},
                               {"products_ms", backend->products_ms / per_step},
                               {"others_ms", others},
                               {"steps", steps},
                               {"threads", kedge::threads()}})
                   .dump()
            << "\n";
  return 0;
}
