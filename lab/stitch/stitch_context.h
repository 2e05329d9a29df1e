// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "space/whitening.h"

#include <kedge/lab/stitch.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

namespace kedge {

/// What all runs of a stitch share, with train and test rows kept apart. Safe to use from several threads.
class StitchContext {
 public:
  /// `data` comes from checked() and must outlive this. Throws Error(Code::bad_argument) if all train targets are the
  /// same.
  StitchContext(const StitchData& data, const StitchOptions& options);

  [[nodiscard]] const StitchData& data() const { return data_; }
  [[nodiscard]] const StitchOptions& options() const { return options_; }
  [[nodiscard]] const Space& train(std::size_t space) const { return train_[space]; }
  [[nodiscard]] const Space& test(std::size_t space) const { return test_[space]; }
  [[nodiscard]] bool has_labels() const { return !data_.labels.empty(); }
  [[nodiscard]] std::span<const std::int64_t> train_labels() const { return train_labels_; }
  [[nodiscard]] std::span<const std::int64_t> test_labels() const { return test_labels_; }
  [[nodiscard]] bool has_targets() const { return data_.targets != nullptr; }
  [[nodiscard]] const Matrix& train_targets() const { return train_targets_; }
  [[nodiscard]] const Matrix& test_targets() const { return test_targets_; }
  /// The range of the train targets, which PSNR is relative to.
  [[nodiscard]] double target_range() const { return target_range_; }

  [[nodiscard]] StitchPoint point(std::size_t index) const;

  /// Statistics of a space's train rows, with whitening if a method needs it. Computed once for each whitening and
  /// device, on one thread, so that it does not matter which run asks first.
  [[nodiscard]] std::shared_ptr<const Statistics> statistics(std::size_t space, const FitOptions& point,
                                                             bool whitened) const;

 private:
  struct Entry {
    std::once_flag once;
    std::shared_ptr<const Statistics> statistics;
  };

  using Key = std::tuple<std::size_t, ShrinkageRule, double, double, Device, bool>;  ///< what statistics depend on

  const StitchData& data_;
  const StitchOptions& options_;
  std::vector<Space> train_, test_;
  std::vector<std::int64_t> train_labels_, test_labels_;
  Matrix train_targets_, test_targets_;
  double target_range_ = 1;
  mutable std::mutex lock_;
  mutable std::map<Key, Entry> cache_;
};

/// The same data with ranges cut to the existing rows. Throws Error(Code::bad_argument) or Error(Code::bad_file)
/// for data that do not fit together.
[[nodiscard]] StitchData checked(StitchData data, const StitchOptions& options);

}  // namespace kedge
