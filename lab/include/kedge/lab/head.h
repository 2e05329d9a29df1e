// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/matrix.h>
#include <kedge/options/option.h>
#include <kedge/progress.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace kedge {

enum class HeadKind {
  mlp,     ///< one hidden layer of tanh, learned by Adam; the head of the relative-representation literature
  linear,  ///< logistic regression for labels, ridge regression for targets; both solved to the end
  ridge,   ///< ridge regression for targets; labels need mlp or linear
};

[[nodiscard]] std::string_view to_string(HeadKind kind);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] HeadKind parse_head_kind(std::string_view name);
[[nodiscard]] std::vector<std::string_view> head_kind_names();

/// How heads are trained; these defaults are the only ones.
struct HeadOptions {
  HeadKind kind = HeadKind::mlp;
  std::uint64_t seed = 0;
  Device device = Device::cpu;  ///< small heads and ridge regression always use the processor

  /// Of mlp, on all rows; default: until a held-out share of them stops improving.
  std::optional<std::size_t> epochs = {};
  std::size_t batch = 256;  ///< of mlp
  /// Of mlp; default: as many as features for a classifier, kDecoderHidden for a decoder.
  std::optional<std::size_t> hidden = {};
  double learning_rate = 1e-3;  ///< of mlp
  double weight_decay = 1e-4;   ///< of mlp, in the gradient, as torch.optim.Adam has it
  double dropout = 0.5;         ///< of a classifier's mlp; a decoder has none

  double l2 = 1;  ///< of logistic regression, added as l2/2 |W|^2 to the sum of losses: 1/C of scikit-learn

  static constexpr std::size_t kDecoderHidden = 512;
  static constexpr std::size_t kHeldOutOneIn = 10;  ///< one row in so many is held out
};

/// The options with their names, except seed and device. They point into `options`, which must outlive the list.
[[nodiscard]] std::vector<Option> options_of(HeadOptions& options);

/// Throws Error(Code::bad_argument) for options out of range.
void require_valid(const HeadOptions& options);
/// Throws Error(Code::bad_argument) for a kind of head that cannot classify.
void require_classifier(HeadKind kind);

/// A head's function of rows, features -> outputs; safe to call from several threads.
using HeadFunction = std::function<Matrix(MatrixView<const float> features)>;

/// A head that predicts the class of a row. Cheap to copy.
class Classifier {
 public:
  Classifier(std::vector<std::int64_t> classes, HeadFunction logits);

  /// Ascending; column c of the logits belongs to class c of these.
  [[nodiscard]] const std::vector<std::int64_t>& classes() const { return classes_; }
  [[nodiscard]] Matrix logits(MatrixView<const float> features) const { return logits_(features); }
  [[nodiscard]] std::vector<std::int64_t> predict(MatrixView<const float> features) const;

 private:
  std::vector<std::int64_t> classes_;
  HeadFunction logits_;
};

/// One label per row. Throws Error(Code::bad_argument) for fewer than two classes, a wrong number of labels, a ridge
/// head, or options out of range, and what require_device throws. Same seed, device and threads, same head.
[[nodiscard]] Classifier train_classifier(MatrixView<const float> features, std::span<const std::int64_t> labels,
                                          const HeadOptions& options = {}, const Progress& progress = {});

/// A head that gives back a row of targets, such as pixels. The result maps features to targets.
[[nodiscard]] HeadFunction train_decoder(MatrixView<const float> features, MatrixView<const float> targets,
                                         const HeadOptions& options = {}, const Progress& progress = {});

}  // namespace kedge
