// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/draw.h>
#include <kedge/matrix.h>
#include <kedge/progress.h>
#include <kedge/space.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kedge {

/// Joint counts, means and second moments of parallel rows of one or more spaces, in float64: all that a fit needs to
/// know of rows it does not keep. A value: threads, processes or machines each add their rows, and merging the parts,
/// in any order, gives the moments of all rows. They can also keep the support rows, and then need the id of every row.
class Moments {
 public:
  struct Part {
    std::string space;
    std::size_t dim = 0;
    bool operator==(const Part&) const = default;
  };

  /// Of no space and no rows.
  Moments() = default;
  /// Of no space yet, to keep this support.
  explicit Moments(SupportDraw support) : support_(std::move(support)) {}
  /// Throws Error(Code::bad_argument) for no space, a name a bundle cannot hold, equal names, or a space of 0 values.
  explicit Moments(std::vector<Part> parts, SupportDraw support = {});
  /// Of sums that are known already; `third` and `fourth` may be empty. Throws as well if sizes do not fit.
  Moments(std::vector<Part> parts, std::size_t rows, std::vector<double> mean, Matrix64 scatter,
          std::vector<double> third, std::vector<double> fourth, SupportDraw support = {});

  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  /// The sum of the dims of all spaces.
  [[nodiscard]] std::size_t dim() const { return mean_.size(); }
  /// Of all spaces side by side.
  [[nodiscard]] std::span<const double> mean() const { return mean_; }
  /// Of one space. Throws UnknownSpace.
  [[nodiscard]] std::span<const double> mean(std::string_view space) const;
  /// dim x dim, divided by rows. Throws Error(Code::bad_argument) if there are no rows.
  [[nodiscard]] Matrix64 covariance() const&;
  [[nodiscard]] Matrix64 covariance() &&;
  /// The covariance's trace.
  [[nodiscard]] double total_variance() const;
  /// The sum of centred products, dim x dim; only its lower triangle is kept.
  [[nodiscard]] const Matrix64& scatter() const& { return scatter_; }
  [[nodiscard]] Matrix64 scatter() && { return std::move(scatter_); }
  /// What Ledoit-Wolf needs, for each space's centred rows y: the sum of |y|^2 y, side by side, and the sum of |y|^4.
  /// Both are empty if they are not known; a GPU does not take them.
  [[nodiscard]] std::span<const double> third() const { return third_; }
  [[nodiscard]] std::span<const double> fourth() const { return fourth_; }

  /// The support rows so far, all spaces side by side.
  [[nodiscard]] const SupportDraw& support() const& { return support_; }
  [[nodiscard]] SupportDraw support() && { return std::move(support_); }
  /// The support rows of one space, support x dim. Throws UnknownSpace.
  [[nodiscard]] Matrix support_rows(std::string_view space) const;

  /// Adds parallel rows: one block for each space, in the order of parts(), and an id for each row if these moments
  /// keep the support. Throws Error(Code::bad_argument) for blocks, widths, rows or ids that do not fit and for values
  /// that are NaN or infinite; RepeatedId. Then nothing has changed.
  void add(std::span<const MatrixView<const float>> rows, std::span<const std::int64_t> ids = {});
  void add(std::span<const MatrixView<const double>> rows);
  /// Throws Error(Code::bad_argument) unless the spaces are the same, in the same order, and the support is drawn in
  /// the same way; RepeatedId. Moments of no space merge with any.
  void merge(const Moments& other);
  void merge(Moments&& other);
  /// Throws Error(Code::bad_argument) unless they are of these spaces, in this order, or of none yet.
  void require_parts(std::span<const Part> parts) const;

  /// Of one space, without support rows. Throws UnknownSpace, which lists the spaces there are.
  [[nodiscard]] Moments of(std::string_view space) const;
  /// Of these spaces, in this order, without support rows.
  [[nodiscard]] Moments of(std::span<const std::string> spaces) const;

 private:
  [[nodiscard]] std::size_t part_of(std::string_view space) const;
  void set_parts(std::vector<Part> parts);
  template <class T>
  void require_rows(std::span<const MatrixView<const T>> rows) const;
  template <class T>
  void add_blocks(std::span<const MatrixView<const T>> rows);
  [[nodiscard]] bool require_mergeable(const Moments& other) const;
  void merge_sums(const Moments& other);
  void move_mean(std::span<const double> between, double weight);
  /// What belongs to one space among the values of all.
  template <class Values>
  [[nodiscard]] auto own(Values& all, std::size_t part) const {
    return std::span(all).subspan(first_[part], parts_[part].dim);
  }
  friend void add_and_overwrite(Moments& moments, MatrixView<double> rows);  // how files are summed up

  std::vector<Part> parts_;
  std::vector<std::size_t> first_;  ///< column of each space
  std::size_t rows_ = 0;
  std::vector<double> mean_;
  Matrix64 scatter_;
  std::vector<double> third_, fourth_;
  SupportDraw support_;
};

/// Reads a space once, block by block. Throws Error(Code::bad_file) if all its rows are the same, or are too large or
/// too small for float32, in which maps are kept.
[[nodiscard]] Moments compute_moments(const Space& space, Device device = Device::cpu, const Progress& progress = {});
/// The same for parallel spaces side by side.
[[nodiscard]] Moments compute_joint_moments(std::span<const Space> spaces, Device device = Device::cpu,
                                            const Progress& progress = {});

/// Adds parallel spaces to moments that may have rows already. If those keep the support, `ids` has one for each row of
/// the spaces' files. Throws what Moments::merge throws, and Error(Code::bad_argument) for ids that are missing, too
/// few or of no use. What is refused leaves the moments as they were; an interrupt may leave a part of the rows added.
void add_moments(Moments& moments, std::span<const Space> spaces, std::span<const std::int64_t> ids = {},
                 Device device = Device::cpu, const Progress& progress = {});

/// Writes a safetensors file; see docs/format.md. Replaces no other file than moments, unless `in_place`.
void save_moments(const Moments& moments, const std::string& path, bool in_place = false);
/// Throws Error(Code::bad_file) for anything that is not a whole, consistent set of moments.
[[nodiscard]] Moments load_moments(const std::string& path);
/// The bytes that save_moments writes, and back; messages call them `label`.
[[nodiscard]] std::string moments_to_bytes(const Moments& moments);
/// Writes them to memory that `place` gives when it is asked, once, for room for so many bytes.
void moments_to_bytes(const Moments& moments, const std::function<char*(std::size_t)>& place);
[[nodiscard]] Moments moments_from_bytes(std::string_view bytes, const std::string& label);

}  // namespace kedge
