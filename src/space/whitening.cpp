// SPDX-License-Identifier: Apache-2.0
#include "backend/cuda/cuda.h"
#include "backend/eigh.h"
#include "backend/products.h"
#include "backend/threads.h"
#include "base/eigen.h"
#include "base/parallel.h"

#include <fmt/format.h>
#include <kedge/device.h>
#include <kedge/error.h>
#include <kedge/whitening.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace kedge {
namespace {

constexpr std::size_t kBlockValues = std::size_t{1} << 21;  // 16 MB of float64: large enough for BLAS, small in memory
constexpr std::size_t kGpuBlockValues = std::size_t{1} << 22;

/// Maps are float32, so that values far outside its range would be infinite or zero there.
void require_float32(const Space& space, double typical) {
  const bool too_large = !(typical <= std::numeric_limits<float>::max());
  if (!too_large && (typical == 0 || typical >= std::numeric_limits<float>::min())) return;
  throw Error(Code::bad_file, fmt::format("space '{}': the values of {} are too {} for float32; rescale the "
                                          "embeddings, e.g. divide them by their standard deviation",
                                          space.name(), space.source().label(), too_large ? "large" : "small"));
}

/// `first` is the space's first column in the moments.
void require_variation(const Space& space, const Moments& moments, std::size_t first) {
  const auto at = static_cast<Eigen::Index>(first);
  const auto dim = static_cast<Eigen::Index>(space.dim());
  const auto mean = as_eigen(std::span(moments.mean)).segment(at, dim);
  const double spread = as_eigen(moments.covariance.view()).diagonal().segment(at, dim).sum();
  require_float32(space, mean.lpNorm<Eigen::Infinity>() + std::sqrt(spread / static_cast<double>(dim)));
  const double length = mean.norm();
  constexpr double kRounding = 1e-13;  // of sums over many equal rows
  const double rounding = kRounding * length;
  if (spread > rounding * rounding) return;
  throw Error(Code::bad_file,
              fmt::format("space '{}': rows {}:{} of {} are all the same, so they cannot be told apart; "
                          "is it the right file?",
                          space.name(), space.range().begin, space.range().end, space.source().label()));
}

void read_side_by_side(std::span<const Space> spaces, std::size_t first, MatrixView<double> to) {
  std::size_t column = 0;
  for (const Space& space : spaces) {
    space.read(first, to.middle_cols(column, space.dim()));
    column += space.dim();
  }
}

/// On all threads, because the product that follows waits for it.
void read_together(std::span<const Space> spaces, std::size_t first, MatrixView<double> to) {
  const unsigned workers = threads();
  const std::size_t share = (to.rows + workers - 1) / workers;
  parallel_blocks(to.rows, share, workers, [&] {
    return
        [&](std::size_t row, std::size_t rows) { read_side_by_side(spaces, first + row, to.middle_rows(row, rows)); };
  });
}

using Tell = std::function<void(std::size_t done, std::size_t total)>;

constexpr std::size_t kMostShares = 32;
constexpr std::size_t kWidestShared = 1024;                      // sums of all shares: 256 MB at most
constexpr std::size_t kShareBlockValues = std::size_t{1} << 18;  // of float64: stays in a core's cache

/// Each share of the rows is summed up by one thread, and none waits for another, whatever else the machine is doing.
/// Shares do not depend on how many threads there are, so neither does the result. A share is so large that adding its
/// sums to the others is nothing beside making them.
Moments sum_in_shares(std::span<const Space> spaces, std::size_t dim, const Tell& tell) {
  const std::size_t total = spaces.front().rows();
  const std::size_t share = std::max({std::size_t{512}, 4 * dim, (total + kMostShares - 1) / kMostShares});
  const std::size_t block_rows = std::clamp<std::size_t>(kShareBlockValues / dim, 1, total);
  std::vector<std::unique_ptr<MomentSums>> sums((total + share - 1) / share);
  std::mutex lock;
  std::size_t done = 0;
  parallel_blocks(total, share, threads(), [&] {
    auto alone = std::make_unique<OneThread>();
    return
        [&, alone = std::move(alone), buffer = Matrix64(block_rows, dim)](std::size_t first, std::size_t rows) mutable {
          MomentSums& own = *(sums[first / share] = std::make_unique<MomentSums>(dim));
          for (const std::size_t end = first + rows; first < end; first += block_rows) {
            const auto block = buffer.view().middle_rows(0, std::min(block_rows, end - first));
            read_side_by_side(spaces, first, block);
            own.add(block);
            const std::scoped_lock one_at_a_time(lock);
            tell(done += block.rows, total);
          }
        };
  });
  for (std::size_t i = 1; i < sums.size(); ++i) sums.front()->merge(*sums[i]);
  return std::move(*sums.front()).moments();
}

/// Where the rows are so wide that there is memory for one set of sums only, BLAS shares out each product.
Moments sum_on_processor(std::span<const Space> spaces, std::size_t dim, const Tell& tell) {
  if (dim <= kWidestShared) return sum_in_shares(spaces, dim, tell);
  const std::size_t total = spaces.front().rows();
  const std::size_t block_rows = std::clamp<std::size_t>(kBlockValues / dim, 1, total);
  MomentSums sums(dim);
  Matrix64 buffer(block_rows, dim);
  for (std::size_t first = 0; first < total; first += block_rows) {
    const auto block = buffer.view().middle_rows(0, std::min(block_rows, total - first));
    read_together(spaces, first, block);
    sums.add(block);
    tell(first + block.rows, total);
  }
  return std::move(sums).moments();
}

/// The GPU sums up a block while the next one is read.
Moments sum_on_gpu(std::span<const Space> spaces, std::size_t dim, const Tell& tell) {
  const std::size_t total = spaces.front().rows();
  const std::size_t block_rows = std::clamp<std::size_t>(kGpuBlockValues / dim, 1, total);
  const auto sums = cuda::make_row_sums(dim, block_rows);
  // Products of values far from zero lose their digits, so all are taken about the mean of the first rows.
  Eigen::RowVectorXd pilot;
  for (std::size_t first = 0; first < total; first += block_rows) {
    const auto block = sums->buffer(std::min(block_rows, total - first));
    read_together(spaces, first, block);
    if (first == 0) {
      pilot = column_means(block);
      sums->set_pilot(std::span(pilot.data(), dim));
    }
    sums->add(block.rows);
    tell(first + block.rows, total);
  }
  Moments moments{total, std::vector<double>(dim), Matrix64(dim, dim)};
  sums->finish(moments.mean, moments.covariance.view());
  auto mean = as_eigen(std::span(moments.mean));
  auto covariance = as_eigen(moments.covariance.view());
  mean /= static_cast<double>(total);
  covariance /= static_cast<double>(total);
  add_gram(moments.covariance.view(), Triangle::upper, {mean.data(), 1, dim, dim}, -1);
  covariance.triangularView<Eigen::StrictlyLower>() = covariance.transpose();
  mean += pilot;
  return moments;
}

}  // namespace

MomentSums::MomentSums(std::size_t dim) : mean_(dim), scatter_(dim, dim) {}

void MomentSums::add(MatrixView<double> block) {
  const Work work;
  if (block.rows == 0) return;
  auto rows = as_eigen(block);
  const Eigen::RowVectorXd mean = column_means(rows);
  rows.rowwise() -= mean;
  add_gram(scatter_.view(), Triangle::lower, block);
  shift(std::span(mean.data(), mean_.size()), block.rows);
}

void MomentSums::merge(const MomentSums& other) {
  if (other.rows_ == 0) return;
  as_eigen(scatter_.view()) += as_eigen(other.scatter_.view());
  shift(other.mean_, other.rows_);
}

/// Chan's formula: centred sums stay accurate however far the mean is from zero.
void MomentSums::shift(std::span<const double> mean, std::size_t rows) {
  const double weight = static_cast<double>(rows) / static_cast<double>(rows_ + rows);
  const Eigen::RowVectorXd between = as_eigen(mean) - as_eigen(std::span(mean_));
  add_gram(scatter_.view(), Triangle::lower, {between.data(), 1, mean_.size(), mean_.size()},
           static_cast<double>(rows_) * weight);
  as_eigen(std::span(mean_)) += weight * between;
  rows_ += rows;
}

Moments MomentSums::moments() && {
  if (rows_ == 0) throw Error(Code::bad_argument, "statistics need at least one row");
  auto covariance = as_eigen(scatter_.view());
  covariance /= static_cast<double>(rows_);
  covariance.triangularView<Eigen::StrictlyUpper>() = covariance.transpose();
  return {rows_, std::move(mean_), std::move(scatter_)};
}

Moments compute_moments(const Space& space, const Progress& progress, Device device) {
  return compute_joint_moments({&space, 1}, progress, device);
}

Moments compute_joint_moments(std::span<const Space> spaces, const Progress& progress, Device device) {
  const Work work;
  std::size_t dim = 0;
  std::string names;
  for (const Space& space : spaces) {
    dim += space.dim();
    names += (names.empty() ? "reading " : ", ") + space.name();
  }
  const auto tell = [&](std::size_t done, std::size_t total) {
    if (progress) progress({names, done, total, ""});
  };
  Moments joint = device == Device::cuda ? sum_on_gpu(spaces, dim, tell) : sum_on_processor(spaces, dim, tell);
  std::size_t column = 0;
  for (const Space& space : spaces) {
    require_variation(space, joint, column);
    column += space.dim();
  }
  return joint;
}

Moments moments_of(const Moments& joint, std::size_t first, std::size_t dim) {
  const auto mean = std::span(joint.mean).subspan(first, dim);
  Moments own{joint.rows, {mean.begin(), mean.end()}, Matrix64(dim, dim)};
  const auto at = static_cast<Eigen::Index>(first);
  const auto size = static_cast<Eigen::Index>(dim);
  as_eigen(own.covariance.view()) = as_eigen(joint.covariance.view()).block(at, at, size, size);
  return own;
}

Matrix64 shrunk_covariance(const Moments& moments, const WhiteningOptions& options) {
  if (!(options.shrinkage >= 0 && options.shrinkage <= 1)) {
    throw Error(Code::bad_argument, fmt::format("shrinkage is {}, expected a number from 0 to 1", options.shrinkage));
  }
  if (!(options.epsilon >= 0) || std::isinf(options.epsilon)) {
    throw Error(Code::bad_argument,
                fmt::format("epsilon is {}, expected 0 or a small positive number", options.epsilon));
  }
  Matrix64 shrunk = moments.covariance;
  auto covariance = as_eigen(shrunk.view());
  const double spread = covariance.trace() / static_cast<double>(moments.mean.size());
  covariance *= 1 - options.shrinkage;
  covariance.diagonal().array() += options.shrinkage * spread + options.epsilon;
  return shrunk;
}

Whitening make_whitening(const Moments& moments, const WhiteningOptions& options, Device device) {
  const Work work;
  Whitening result{
      moments.mean, shrunk_covariance(moments, options), Matrix64(moments.mean.size(), moments.mean.size()), {}, {}};
  const auto dim = static_cast<double>(moments.mean.size());
  Eigenpairs pairs = eigh(result.covariance, device);
  const double smallest = pairs.values.front();
  const double noise = pairs.values.back() * dim * std::numeric_limits<double>::epsilon();
  if (!(smallest > noise)) {
    throw Error(Code::bad_argument,
                "the covariance is singular, so it cannot be whitened: some direction of the space "
                "never varies; raise the shrinkage or epsilon above 0");
  }
  // Row i of `vectors` scaled by values^(-1/4) on both sides of the product gives sum_i v_i v_i^T / sqrt(values_i).
  EigenRows<double> scaled = as_eigen(pairs.vectors.view());
  for (std::size_t i = 0; i < pairs.values.size(); ++i) {
    scaled.row(static_cast<Eigen::Index>(i)) /= std::pow(pairs.values[i], 0.25);
  }
  set_product(result.whitener.view(), scaled.transpose(), scaled);
  result.values = std::move(pairs.values);
  result.vectors = std::move(pairs.vectors);
  return result;
}

void whiten(const Whitening& whitening, MatrixView<double> rows) {
  const Work work;
  auto x = as_eigen(rows);
  x.rowwise() -= as_eigen(std::span(whitening.mean));
  x = product(x, whitening.whitener.view());
}

}  // namespace kedge
