// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/kernel.h>
#include <kedge/matrix.h>
#include <kedge/progress.h>
#include <kedge/similarity.h>
#include <kedge/space.h>
#include <kedge/whitening.h>

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace kedge {

/// x -> RR(x), the similarities of an embedding to the anchors of its space. What `weight`, `bias` and `mean` hold for
/// each similarity is in docs/format.md; for wip and inner the map is affine, RR(x) = weight x + bias, unless it has a
/// kernel.
class RelativeMap {
 public:
  /// weight: anchors x dim, bias: anchors, mean: dim. Throws Error(Code::bad_argument) where they do not fit together.
  /// A kernel needs the similarity wip or inner.
  RelativeMap(std::string space, Similarity similarity, Matrix weight, std::vector<float> bias, std::vector<float> mean,
              std::optional<Kernel> kernel = {});

  [[nodiscard]] const std::string& space() const { return space_; }
  [[nodiscard]] Similarity similarity() const { return similarity_; }
  [[nodiscard]] std::size_t input_dim() const { return weight_.cols(); }
  [[nodiscard]] std::size_t output_dim() const { return weight_.rows(); }
  [[nodiscard]] const Matrix& weight() const { return weight_; }
  [[nodiscard]] const std::vector<float>& bias() const { return bias_; }
  [[nodiscard]] const std::vector<float>& mean() const { return mean_; }
  /// What makes it non-linear, where something does.
  [[nodiscard]] const std::optional<Kernel>& kernel() const { return kernel_; }

  /// rr = RR(x), row by row. x: rows x input_dim, rr: rows x output_dim, apart in memory. Throws
  /// Error(Code::bad_argument) otherwise.
  void apply(MatrixView<const float> x, MatrixView<float> rr) const;
  [[nodiscard]] Matrix apply(MatrixView<const float> x) const;
  /// One embedding, with no memory allocated and no thread but the calling one; the rest as above. A kernel allocates
  /// for embeddings of more than 4096 values.
  void apply(std::span<const float> x, std::span<float> rr) const;

 private:
  std::string space_;
  Similarity similarity_;
  Matrix weight_;
  std::vector<float> bias_;
  std::vector<float> mean_;
  std::optional<Kernel> kernel_;
};

/// Folds anchors (rows of the space) and its statistics into one map. Options matter for wip only.
[[nodiscard]] RelativeMap make_relative_map(const std::string& space, Similarity similarity, const Matrix64& anchors,
                                            const Moments& moments, const WhiteningOptions& options);

/// Divides rows by their lengths; a row of zeros stays one.
void normalize_rows(MatrixView<float> rows);

/// How rows are taken through a map into a file.
struct StreamOptions {
  Device device = Device::cpu;
  Precision precision = Precision::fp32;  ///< of products on a GPU; files are the slower part
  bool normalize = false;                 ///< results of length 1
  bool in_place = false;                  ///< the result may replace the file that is read, once it is whole
};

/// Streams a space through its map into an `.npy` file, on all threads; memory does not grow with rows.
/// Throws Error(Code::bad_argument) for euclidean, angular or manhattan on a GPU; for input as output, unless in_place.
void transform(const RelativeMap& map, const Space& input, const std::string& output_path,
               const StreamOptions& options = {}, const Progress& progress = {});

}  // namespace kedge
