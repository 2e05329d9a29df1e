// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>
#include <kedge/moments.h>
#include <kedge/progress.h>
#include <kedge/space.h>
#include <kedge/whitening.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge {

/// Whether rows could be of the model that made some known rows, of which only the mean and covariance are needed. It
/// goes by directions: rows are compared at one length, so that it makes no difference whether they are normalised.
class Likeness {
 public:
  /// A row below kLike is like the known rows; one above kUnlike is of another model. Between them are rows of the same
  /// model on other content, and some of another.
  static constexpr double kLike = 0.5, kUnlike = 0.7;

  /// Of the moments of one space. Throws what make_whitening throws.
  explicit Likeness(const Moments& known);

  [[nodiscard]] std::size_t dim() const { return whitening_.mean.size(); }
  /// For each row: on average 0 for rows such as those known, and 1 for rows of a model that has nothing to do with
  /// them, or of zeros. Throws Error(Code::bad_argument) for rows of another width.
  [[nodiscard]] std::vector<float> distances(MatrixView<const float> rows) const;
  /// Root mean square of the known rows' lengths.
  [[nodiscard]] double length() const { return length_; }
  /// Whether the known rows fill some directions so much more than others that a foreign row stands out.
  [[nodiscard]] bool can_tell() const;

 private:
  Whitening whitening_;
  double length_ = 0;
  double chance_ = 1;  ///< mean square of a whitened row of this length and any direction; 1 for known rows
};

/// One of the models that rows may be of.
struct KnownModel {
  std::string name;
  Likeness likeness;
};

/// Which of some models the rows of a file look like.
struct ModelShares {
  std::vector<std::size_t> rows;            ///< that look like each of the models
  std::size_t between = 0;                  ///< rows that may be of the nearest model, on other content
  std::size_t unlike = 0;                   ///< rows of none of them
  std::vector<std::int64_t> first_strange;  ///< a few rows that do not look like the model most of them look like
  double length = 0;                        ///< root mean square of the rows' lengths
};

/// Reads a space once. Throws Error(Code::bad_argument) for no model, or one of another width than the space.
[[nodiscard]] ModelShares count_by_model(const Space& space, std::span<const KnownModel> models,
                                         const Progress& progress = {});

}  // namespace kedge
