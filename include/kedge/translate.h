// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/bundle.h>
#include <kedge/matrix.h>
#include <kedge/progress.h>
#include <kedge/space.h>

#include <optional>
#include <string>
#include <vector>

namespace kedge {

/// One space's map, then another's decoder, folded into one: y = weight x + bias takes embeddings of `from` to where
/// `to` would have put the same inputs. With a kernel it is the formula of a RelativeMap with one. If the bundle keeps
/// the rows of both, it is a regression of the one's on the other's, which is made here; not if they share too few rows
/// and the shared space explains more of those.
class Translator {
 public:
  /// Throws Error(Code::bad_argument) for unknown spaces, a similarity without inverse, and a `to` without decoder.
  Translator(const Bundle& bundle, const std::string& from, const std::string& to);

  [[nodiscard]] const std::string& from() const { return from_; }
  [[nodiscard]] const std::string& to() const { return to_; }
  [[nodiscard]] std::size_t input_dim() const { return weight_.cols(); }
  [[nodiscard]] std::size_t output_dim() const { return weight_.rows(); }
  [[nodiscard]] const Matrix& weight() const { return weight_; }
  [[nodiscard]] const std::vector<float>& bias() const { return bias_; }
  [[nodiscard]] const std::optional<Kernel>& kernel() const { return kernel_; }
  /// What a kernel takes off x; empty without one.
  [[nodiscard]] const std::vector<float>& mean() const { return mean_; }

  /// Share of the variance of the other space's rows that it explains by cross-validation, if it was regressed here.
  [[nodiscard]] std::optional<double> r2() const { return r2_; }

  /// x: rows x input_dim, y: rows x output_dim. Throws Error(Code::bad_argument) otherwise.
  void apply(MatrixView<const float> x, MatrixView<float> y) const;
  [[nodiscard]] Matrix apply(MatrixView<const float> x) const;

 private:
  std::string from_, to_;
  Matrix weight_;
  std::vector<float> bias_, mean_;
  std::optional<Kernel> kernel_;
  std::optional<double> r2_;

  void regress(const Bundle& bundle, const Attachment& source, const Matrix64& from, const Matrix64& to);
  void go_through(const RelativeMap& map, const Attachment& target);
  void take(const RelativeMap& map);
};

/// Streams a space's rows into an `.npy` file, as transform() does.
void translate(const Translator& translator, const Space& input, const std::string& output_path,
               const StreamOptions& options = {}, const Progress& progress = {});

}  // namespace kedge
