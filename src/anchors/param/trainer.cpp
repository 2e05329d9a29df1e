// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/trainer.h"

#include "anchors/param/param.h"
#include "base/random.h"
#include "base/wording.h"

#include <algorithm>
#include <array>
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

/// Streams of one seed must not overlap with those of another. Stream 0 makes the logits, the others shuffle epochs.
std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t stream) {
  return seed * 0x9e3779b97f4a7c15ULL + stream;
}

}  // namespace

Trainer::Trainer(Backend& backend, const WhitenedSpaces& spaces, std::span<const std::uint32_t> support,
                 std::size_t anchors, const Param& options, std::uint64_t seed)
    : backend_(backend),
      options_(options),
      seed_(seed),
      objective_((require_valid(options), backend), spaces, support, anchors, options),
      rows_(spaces.rows->panel().rows),
      batch_(std::min(options.batch, rows_)),
      steps_per_epoch_(rows_ / batch_),
      given_epoch_(kNone),
      shuffled_epoch_(kNone) {
  for (auto* tensor : {&logits_, &dmixture_, &first_moment_, &second_moment_}) {
    *tensor = backend.make(anchors, support.size());
  }
  mixture_ = backend.make_softmax(anchors, support.size());
  log_ = backend.make(steps_per_epoch_, objective_.losses().cols);
  order_ = backend.make_integers(steps_per_epoch_ * batch_);
  taken_ = backend.make_integers(1);
  recording_ = backend.record([this] { enqueue_step(); });
  Random random(stream_seed(seed, 0));
  Matrix row(1, support.size());
  for (std::size_t r = 0; r < anchors; ++r) {
    for (float& logit : row.cells()) logit = static_cast<float>(random.normal());
    backend.upload(row.view(), logits_->panel().middle_rows(r, 1));
  }
  backend.softmax_rows(logits_->panel(), static_cast<float>(options.temperature), mixture_->panel());
}

void Trainer::run(const Progress& progress) {
  const auto start = std::chrono::steady_clock::now();
  const std::uint64_t before = steps_;
  while (!done()) {
    take_steps(std::min(backend_.stride(), steps_per_epoch_ - step_));
    if (!progress) continue;
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    report(progress, seconds.count(), steps_ - before);
  }
}

/// The same operations in every step: the backend counts the steps, and batch and place of the losses follow from that.
void Trainer::enqueue_step() {
  const Ids batch{order_->data(), batch_, taken_->data(), steps_per_epoch_};
  const AdamStep adam{static_cast<float>(options_.learning_rate), static_cast<float>(options_.beta1),
                      static_cast<float>(options_.beta2),         static_cast<float>(options_.adam_epsilon),
                      static_cast<float>(options_.weight_decay),  taken_->data()};
  objective_.enqueue(mixture_->panel(), batch, dmixture_->panel(),
                     [&] { backend_.end_step(objective_.losses(), log_->panel(), *taken_); });
  backend_.step_logits(dmixture_->panel(), objective_.inner(), static_cast<float>(options_.temperature), adam,
                       logits_->panel(), first_moment_->panel(), second_moment_->panel(), mixture_->panel());
}

void Trainer::take_steps(std::size_t count) {
  give_order();
  recording_->run(count);
  if (step_ + count == steps_per_epoch_ && epoch_ + 1 < options_.epochs) shuffle(epoch_ + 1);
  Matrix losses(count, log_->panel().cols);
  backend_.download(log_->panel().middle_rows(step_, count), losses.view());
  for (std::size_t i = 0; i < count; ++i) count_step(objective_.losses_of(losses.row(i)));
}

void Trainer::count_step(const Losses& losses) {
  if (!std::isfinite(losses.total)) {
    throw LossNotFinite(Code::failed, fmt::format("the loss became {} at step {} (epoch {}), so training stopped; try "
                                                  "a lower learning rate or more shrinkage",
                                                  losses.total, steps_ + 1, epoch_ + 1));
  }
  ++steps_;
  last_ = losses;
  sums_ = plus(sums_, losses);
  if (++step_ < steps_per_epoch_) return;
  history_.push_back(divided(sums_, steps_per_epoch_));
  sums_ = {};
  step_ = 0;
  ++epoch_;
}

/// Hands the backend the epoch's order of rows.
void Trainer::give_order() {
  if (given_epoch_ == epoch_) return;
  if (shuffled_epoch_ != epoch_) shuffle(epoch_);
  backend_.upload(shuffled_, *order_);
  given_epoch_ = epoch_;
}

void Trainer::shuffle(std::size_t epoch) {
  const std::vector<std::size_t> rows = Random(stream_seed(seed_, epoch + 1)).sample(rows_, rows_);
  shuffled_.assign(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(steps_per_epoch_ * batch_));
  shuffled_epoch_ = epoch;
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
      refuse_file("the checkpoint has {} anchors and {} support rows, but this training has {} and {}", matrix->rows(),
                  matrix->cols(), shape.rows, shape.cols);
    }
  }
  if (c.step >= steps_per_epoch_ || c.history.size() != c.epoch || c.steps != c.epoch * steps_per_epoch_ + c.step) {
    refuse_file("the checkpoint's position in the training makes no sense; it is damaged");
  }
  epoch_ = c.epoch;
  step_ = c.step;
  steps_ = c.steps;
  given_epoch_ = kNone;
  backend_.upload(std::array{static_cast<std::uint32_t>(c.steps)}, *taken_);
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
