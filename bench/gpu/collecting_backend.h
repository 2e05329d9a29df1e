// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/backend.h"

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace kedge::bench {

/// Some operations that a backend starts at once, to be run again by themselves.
struct Stage {
  std::string name;
  std::vector<std::string> shapes;
  double flops = 0;     ///< of its products
  bool beside = false;  ///< it overlaps a longer sequence
  std::function<void(Backend&)> run;
};

/// Runs operations on another backend, one stage after the other, and keeps the stages.
class CollectingBackend final : public Backend {
 public:
  explicit CollectingBackend(Backend& inner) : inner_(inner) {}
  /// The stages since the last call.
  [[nodiscard]] std::vector<Stage> take_stages() { return std::exchange(stages_, {}); }

  std::string name() const override { return inner_.name(); }
  std::unique_ptr<Tensor> make(std::size_t rows, std::size_t cols) override { return inner_.make(rows, cols); }
  std::unique_ptr<Tensor> make_softmax(std::size_t rows, std::size_t cols) override {
    return inner_.make_softmax(rows, cols);
  }
  std::unique_ptr<Integers> make_integers(std::size_t count) override { return inner_.make_integers(count); }
  void upload(MatrixView<const float> from, Panel to) override { inner_.upload(from, to); }
  void upload(std::span<const std::uint32_t> from, Integers& to) override { inner_.upload(from, to); }
  void download(ConstPanel from, MatrixView<float> to) override { inner_.download(from, to); }
  std::unique_ptr<Packed> pack(ConstPanel matrix) override { return inner_.pack(matrix); }

  void fill(Panel x, float value) override {
    keep("fill", x, 0, [=](Backend& on) { on.fill(x, value); });
  }
  void gather_rows(ConstPanel from, Ids ids, Panel to) override {
    keep("gather_rows", to, 0, [=](Backend& on) { on.gather_rows(from, ids, to); });
  }
  void gemm_nn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    keep("gemm_nn", c, a.cols, [=](Backend& on) { on.gemm_nn(alpha, a, b, beta, c); });
  }
  void gemm_nt(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    keep("gemm_nt", c, a.cols, [=](Backend& on) { on.gemm_nt(alpha, a, b, beta, c); });
  }
  void gemm_tn(float alpha, ConstPanel a, ConstPanel b, float beta, Panel c) override {
    keep("gemm_tn", c, a.rows, [=](Backend& on) { on.gemm_tn(alpha, a, b, beta, c); });
  }
  void gram(ConstPanel a, Panel c) override {
    keep("gram", c, a.cols, [=](Backend& on) { on.gram(a, c); });
  }
  void affine(ConstPanel x, ConstPanel w, ConstPanel b, bool exact, Panel y) override {
    keep("affine", y, x.cols, [=](Backend& on) { on.affine(x, w, b, exact, y); });
  }
  void packed_nn(ConstPanel a, Packed& b, Panel c) override {
    keep("packed_nn", c, a.cols, [=, &b](Backend& on) { on.packed_nn(a, b, c); });
  }
  void packed_nt(ConstPanel a, Packed& b, Panel c) override {
    keep("packed_nt", c, a.cols, [=, &b](Backend& on) { on.packed_nt(a, b, c); });
  }
  void row_lengths(ConstPanel x, Panel lengths) override {
    keep("row_lengths", x, 0, [=](Backend& on) { on.row_lengths(x, lengths); });
  }
  void row_dots(ConstPanel x, ConstPanel y, Panel dots) override {
    keep("row_dots", x, 0, [=](Backend& on) { on.row_dots(x, y, dots); });
  }
  void normalize_rows(ConstPanel x, Panel unit, Panel lengths, Panel again) override {
    keep("normalize_rows", x, 0, [=](Backend& on) { on.normalize_rows(x, unit, lengths, again); });
  }
  void normalize_rows_backward(ConstPanel unit, ConstPanel lengths, ConstPanel dunit, float beta, Panel dx) override {
    keep("normalize_rows_backward", dx, 0,
         [=](Backend& on) { on.normalize_rows_backward(unit, lengths, dunit, beta, dx); });
  }
  void coverage(ConstPanel r, ConstPanel x_lengths, ConstPanel a_lengths, float tau, Weighted weighted, Panel dr,
                Panel pull, Panel loss) override {
    keep("coverage", r, 0, [=](Backend& on) { on.coverage(r, x_lengths, a_lengths, tau, weighted, dr, pull, loss); });
  }
  void pull_rows(ConstPanel a, ConstPanel lengths, ConstPanel pull, Weighted weighted, Panel da, Panel loss) override {
    keep("pull_rows", a, 0, [=](Backend& on) { on.pull_rows(a, lengths, pull, weighted, da, loss); });
  }
  void orthogonality(ConstPanel gram, float share, Panel loss) override {
    keep("orthogonality", gram, 0, [=](Backend& on) { on.orthogonality(gram, share, loss); });
  }
  void symmetric_nce(Panel cosines, Panel turned, float tau, Weighted weighted, Panel loss) override {
    keep("symmetric_nce", cosines, 0, [=](Backend& on) { on.symmetric_nce(cosines, turned, tau, weighted, loss); });
  }
  void softmax_rows(ConstPanel logits, float temperature, Panel mixture) override {
    keep("softmax_rows", logits, 0, [=](Backend& on) { on.softmax_rows(logits, temperature, mixture); });
  }
  void step_logits(ConstPanel dmixture, ConstPanel inner, float temperature, const AdamStep& adam, Panel logits,
                   Panel first_moment, Panel second_moment, Panel mixture) override {
    keep("step_logits", logits, 0, [=](Backend& on) {
      on.step_logits(dmixture, inner, temperature, adam, logits, first_moment, second_moment, mixture);
    });
  }
  void step_values(ConstPanel dvalues, const AdamStep& adam, Panel values, Panel first_moment,
                   Panel second_moment) override {
    keep("step_values", values, 0,
         [=](Backend& on) { on.step_values(dvalues, adam, values, first_moment, second_moment); });
  }
  void end_step(Panel losses, Panel log, Integers& taken) override {
    keep("end_step", losses, 0, [=, &taken](Backend& on) { on.end_step(losses, log, taken); });
  }
  void side_by_side(std::size_t count, const std::function<void(std::size_t)>& work) override;
  void beside(const std::function<void()>& first, const std::function<void()>& second) override;

 private:
  /// A product has an inner size, all else has 0.
  void keep(const char* name, ConstPanel shape, std::size_t inner, std::function<void(Backend&)> run);
  void add(Stage stage);

  Backend& inner_;
  bool beside_ = false;
  std::vector<Stage> stages_;
  std::vector<std::vector<Stage>> branches_;  ///< of side_by_side, while they are collected
};

}  // namespace kedge::bench
