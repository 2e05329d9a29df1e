// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include "base/random.h"
#include "train/param_options.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>

namespace kedge {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

Losses plus(const Losses& a, const Losses& b) {
  return {a.total + b.total, a.symnce + b.symnce, a.coverage + b.coverage, a.orthogonality + b.orthogonality,
          a.length + b.length};
}

Losses divided(const Losses& l, std::size_t count) {
  const auto n = static_cast<double>(count);
  return {l.total / n, l.symnce / n, l.coverage / n, l.orthogonality / n, l.length / n};
}

/// Seeds of different epochs must not overlap those of other seeds' epochs; 0 is the starting logits'.
std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t stream) {
  return seed * 0x9e3779b97f4a7c15ULL + stream;
}

}  // namespace

Trainer::Trainer(Backend& backend, const WhitenedSpaces& spaces, std::span<const std::uint32_t> support,
                 std::size_t anchors, const ParamOptions& options, std::uint64_t seed)
    : backend_(backend),
      options_(options),
      seed_(seed),
      objective_((require_valid(options), backend), spaces, support, anchors, options),
      rows_(spaces.rows->panel().rows),
      batch_(std::min(options.batch, rows_)),
      steps_per_epoch_(rows_ / batch_),
      ordered_epoch_(kNone) {
  for (auto* tensor : {&logits_, &mixture_, &dmixture_, &first_moment_, &second_moment_}) {
    *tensor = backend.make(anchors, support.size());
  }
  Random random(stream_seed(seed, 0));
  Matrix row(1, support.size());
  for (std::size_t r = 0; r < anchors; ++r) {
    for (float& logit : row.cells()) logit = static_cast<float>(random.normal());
    const Panel all = logits_->panel();
    backend.upload(row.view(), {all.data + r * all.stride, 1, all.cols, all.stride});
  }
  backend.softmax_rows(logits_->panel(), static_cast<float>(options.temperature), mixture_->panel());
}

void Trainer::run(const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t before = steps_;
  while (!done()) {
    step();
    if (!progress) continue;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    report(progress, seconds.count(), steps_ - before);
  }
}

void Trainer::step() {
  const Losses losses = objective_.evaluate(mixture_->panel(), next_batch(), dmixture_->panel());
  if (!std::isfinite(losses.total)) {
    throw LossNotFinite(Code::failed,
                        fmt::format("the loss became {} at step {} (epoch {}), so training stopped; try a lower "
                                    "learning rate or more shrinkage",
                                    losses.total, steps_ + 1, epoch_ + 1));
  }
  const AdamStep adam{static_cast<float>(options_.learning_rate), static_cast<float>(options_.beta1),
                      static_cast<float>(options_.beta2),         static_cast<float>(options_.adam_epsilon),
                      static_cast<float>(options_.weight_decay),  steps_ + 1};
  backend_.step_logits(dmixture_->panel(), static_cast<float>(options_.temperature), adam, logits_->panel(),
                       first_moment_->panel(), second_moment_->panel(), mixture_->panel());
  ++steps_;
  last_ = losses;
  sums_ = plus(sums_, losses);
  if (++step_ < steps_per_epoch_) return;
  history_.push_back(divided(sums_, steps_per_epoch_));
  sums_ = {};
  step_ = 0;
  ++epoch_;
}

std::span<const std::uint32_t> Trainer::next_batch() {
  if (ordered_epoch_ != epoch_) {
    const std::vector<std::size_t> shuffled = Random(stream_seed(seed_, epoch_ + 1)).sample(rows_, rows_);
    order_.assign(shuffled.begin(), shuffled.end());
    ordered_epoch_ = epoch_;
  }
  return std::span(order_).subspan(step_ * batch_, batch_);
}

void Trainer::report(const Progress& progress, double seconds, std::uint64_t since) {
  const std::string detail =
      fmt::format("epoch {} total {:.3f} nce {:.3f} cov {:.3f} orth {:.4f} len {:.3f} {:.1f} steps/s",
                  std::min(epoch_ + 1, options_.epochs), last_.total, last_.symnce, last_.coverage, last_.orthogonality,
                  last_.length, static_cast<double>(since) / seconds);
  progress({"learning", static_cast<std::size_t>(steps_), options_.epochs * steps_per_epoch_, detail});
}

Checkpoint Trainer::checkpoint(const std::string& purpose) const {
  return {purpose, epoch_, step_, steps_, sums_, history_, read(*logits_), read(*first_moment_), read(*second_moment_)};
}

void Trainer::restore(const Checkpoint& c) {
  const Panel shape = logits_->panel();
  for (const Matrix* matrix : {&c.logits, &c.first_moment, &c.second_moment}) {
    if (matrix->rows() != shape.rows || matrix->cols() != shape.cols) {
      throw Error(Code::bad_file,
                  fmt::format("the checkpoint is of {} anchors and {} support rows, but this training has {} and {}",
                              matrix->rows(), matrix->cols(), shape.rows, shape.cols));
    }
  }
  if (c.step >= steps_per_epoch_ || c.history.size() != c.epoch || c.steps != c.epoch * steps_per_epoch_ + c.step) {
    throw Error(Code::bad_file, "the checkpoint's place in the training makes no sense; it is damaged");
  }
  epoch_ = c.epoch;
  step_ = c.step;
  steps_ = c.steps;
  sums_ = c.sums;
  history_ = c.history;
  backend_.upload(c.logits.view(), logits_->panel());
  backend_.upload(c.first_moment.view(), first_moment_->panel());
  backend_.upload(c.second_moment.view(), second_moment_->panel());
  backend_.softmax_rows(logits_->panel(), static_cast<float>(options_.temperature), mixture_->panel());
}

Matrix Trainer::read(Tensor& tensor) const {
  const Panel panel = tensor.panel();
  Matrix host(panel.rows, panel.cols);
  backend_.download(panel, host.view());
  return host;
}

}  // namespace kedge
