// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "anchors/param/objective.h"
#include "anchors/param/param.h"

#include <kedge/error.h>

namespace kedge {

/// A loss that is NaN or infinite; the state is useless then, and no checkpoint should be made of it.
class LossNotFinite : public Error {
 public:
  using Error::Error;
};

/// Learns the logits of a mixture by Adam on shuffled batches. All random numbers follow from the seed and the epoch,
/// so that training continued from a checkpoint takes the same steps.
class Trainer {
 public:
  Trainer(Backend& backend, const WhitenedSpaces& spaces, std::span<const std::uint32_t> support, std::size_t anchors,
          const Param& options, std::uint64_t seed);

  /// Runs all epochs that are left. Calls `progress` after each step, or after as many as the backend queues at once;
  /// it may throw to stop, which leaves the state of the last step. Throws LossNotFinite, which names the step.
  void run(const Progress& progress);

  /// Takes steps on the next batches, no more than are left of the epoch.
  void take_steps(std::size_t count);
  void step() { take_steps(1); }
  [[nodiscard]] bool done() const { return epoch_ >= options_.epochs; }

  [[nodiscard]] Checkpoint checkpoint(const std::string& purpose) const;
  /// Throws Error(Code::bad_file) if the sizes differ.
  void restore(const Checkpoint& checkpoint);

  [[nodiscard]] std::size_t epoch() const { return epoch_; }
  [[nodiscard]] Matrix logits() const { return read(*logits_); }
  [[nodiscard]] Matrix mixture() const { return read(*mixture_); }
  [[nodiscard]] const std::vector<Losses>& history() const { return history_; }

 private:
  void enqueue_step();
  void give_order();
  void shuffle(std::size_t epoch);
  void count_step(const Losses& losses);
  void report(const Progress& progress, double seconds, std::uint64_t since);
  [[nodiscard]] Matrix read(Tensor& tensor) const;

  Backend& backend_;
  Param options_;
  std::uint64_t seed_;
  Objective objective_;
  std::size_t rows_, batch_, steps_per_epoch_;
  std::unique_ptr<Tensor> logits_, mixture_, dmixture_, first_moment_, second_moment_;
  std::unique_ptr<Tensor> log_;          ///< losses of the steps of an epoch
  std::unique_ptr<Integers> order_;      ///< rows of the epoch under way, in the backend
  std::unique_ptr<Integers> taken_;      ///< how many steps were taken, in the backend
  std::size_t given_epoch_;              ///< the epoch of that order
  std::vector<std::uint32_t> shuffled_;  ///< the order of the next epoch, made while the backend works
  std::size_t shuffled_epoch_;
  std::unique_ptr<Recording> recording_;
  std::size_t epoch_ = 0, step_ = 0;
  std::uint64_t steps_ = 0;
  Losses last_, sums_;
  std::vector<Losses> history_;
};

}  // namespace kedge
