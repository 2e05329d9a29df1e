// SPDX-License-Identifier: Apache-2.0
#include "space/sum_rows.h"

#include "base/arithmetic.h"
#include "base/eigen.h"
#include "base/parallel.h"
#include "base/wording.h"
#include "compute/covariance.h"
#include "compute/device.h"
#include "compute/threads.h"

#include <fmt/ranges.h>
#include <kedge/draw.h>
#include <kedge/moments.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>

namespace kedge {
namespace {

void require_float32(const std::string& space, const std::string& rows, double typical) {
  const bool too_large = !(typical <= std::numeric_limits<float>::max());
  if (!too_large && (typical == 0 || typical >= std::numeric_limits<float>::min())) return;
  refuse_file(
      "space '{}': the values of {} are too {} for float32; rescale the embeddings, e.g. divide them by their "
      "standard deviation",
      space, rows, too_large ? "large" : "small");
}

constexpr std::size_t kBlockValues = std::size_t{1} << 21;  // 16 MB of float64: large enough for BLAS, small in memory
// For a device that rows are carried to, where pinning memory and starting a product both take time.
constexpr std::size_t kCarriedBlockValues = std::size_t{1} << 20;
constexpr unsigned kMostCarriers = 8;

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

/// One thread sums up each share of the rows, and none waits for another, whatever else the machine is doing. Shares do
/// not depend on the number of threads, so neither does the result. They are so large that merging them costs little.
Moments sum_in_shares(std::span<const Space> spaces, const Moments& none, const Tell& tell) {
  const std::size_t dim = none.dim();
  const std::size_t total = spaces.front().rows();
  const std::size_t share = std::max({std::size_t{512}, 4 * dim, (total + kMostShares - 1) / kMostShares});
  const std::size_t block_rows = std::clamp<std::size_t>(kShareBlockValues / dim, 1, total);
  std::vector<Moments> sums((total + share - 1) / share);
  std::mutex lock;
  std::size_t done = 0;
  parallel_blocks(total, share, threads(), [&] {
    return [&, buffer = Matrix64(block_rows, dim)](std::size_t first, std::size_t rows) mutable {
      Moments& own = (sums[first / share] = none);
      for (const std::size_t end = first + rows; first < end; first += block_rows) {
        const auto block = buffer.view().middle_rows(0, std::min(block_rows, end - first));
        read_side_by_side(spaces, first, block);
        add_and_overwrite(own, block);
        const std::scoped_lock one_at_a_time(lock);
        tell(done += block.rows, total);
      }
    };
  });
  for (const Moments& own : std::span(sums).subspan(1)) sums.front().merge(own);
  return std::move(sums.front());
}

/// For rows so wide that there is memory for one set of sums only: BLAS uses all threads for each product.
void add_wide(Moments& sums, std::span<const Space> spaces, const Tell& tell) {
  const std::size_t total = spaces.front().rows();
  const std::size_t block_rows = std::clamp<std::size_t>(kBlockValues / sums.dim(), 1, total);
  Matrix64 buffer(block_rows, sums.dim());
  for (std::size_t first = 0; first < total; first += block_rows) {
    const auto block = buffer.view().middle_rows(0, std::min(block_rows, total - first));
    read_together(spaces, first, block);
    add_and_overwrite(sums, block);
    tell(first + block.rows, total);
  }
}

template <class T>
std::vector<double> means_of(std::span<const MatrixView<T>> spaces) {
  std::vector<double> means;
  for (const MatrixView<T>& own : spaces) {
    const Eigen::RowVectorXd found = as_eigen(own).template cast<double>().colwise().mean();
    means.insert(means.end(), found.begin(), found.end());
  }
  return means;
}

/// Reads a block into a buffer of its own, then has the device sum it up while others are read.
template <class T>
struct Carrier {
  std::span<const Space> spaces;
  RowSums<T>& sums;
  const Tell& tell;
  std::size_t buffer;
  std::vector<MatrixView<T>> block = {};

  void read(std::size_t first, std::size_t rows) {
    block = sums.buffer(buffer, rows);
    for (std::size_t i = 0; i < spaces.size(); ++i) spaces[i].read(first, block[i]);
  }
  void hand_over(std::size_t first, std::size_t rows) {
    if (first == 0) sums.set_pilot(means_of<T>(block));
    sums.add(buffer, rows);
    tell(first + rows, spaces.front().rows());
  }
};

template <class T>
Moments sum_on(Device device, std::span<const Space> spaces, const Moments& none, const Tell& tell) {
  const std::size_t dim = none.dim();
  const std::size_t total = spaces.front().rows();
  const std::size_t block_rows = std::clamp<std::size_t>(kCarriedBlockValues / dim, 1, total);
  std::vector<std::size_t> dims;
  for (const Space& space : spaces) dims.push_back(space.dim());
  const unsigned workers = std::clamp(threads(), 2U, kMostCarriers);
  const auto sums = make_row_sums<T>(dims, block_rows, workers, device);
  std::atomic<std::size_t> next_buffer{0};
  parallel_blocks_in_order(total, block_rows, workers, [&] { return Carrier<T>{spaces, *sums, tell, next_buffer++}; });
  std::vector<double> mean(dim);
  Matrix64 scatter(dim, dim);
  sums->finish(mean, scatter.view());
  return {none.parts(), total, std::move(mean), std::move(scatter), {}, {}};
}

/// The same draw with only those rows that are to be added to it, which are read one by one.
SupportDraw draw_support(const SupportDraw& draw, std::span<const Space> spaces, std::span<const std::int64_t> ids) {
  draw.require_ids(ids, spaces.front().source().rows());
  SupportDraw drawn = draw.without_rows();
  if (!draw.keeps_rows()) return drawn;
  std::vector<std::int64_t> own;
  if (!spaces.front().is_range()) {
    for (std::size_t row = 0; row < spaces.front().rows(); ++row) {
      own.push_back(ids[static_cast<std::size_t>(spaces.front().file_row(row))]);
    }
  }
  const auto among =
      own.empty() ? ids.subspan(spaces.front().range().begin, spaces.front().rows()) : std::span(std::as_const(own));
  const std::vector<std::size_t> places = draw.choose(among);
  std::vector<std::int64_t> chosen;
  for (const std::size_t place : places) chosen.push_back(among[place]);
  std::vector<Matrix> rows;
  std::vector<MatrixView<const float>> views;
  for (const Space& space : spaces) {
    Matrix& read = rows.emplace_back(places.size(), space.dim());
    for (std::size_t i = 0; i < places.size(); ++i) space.read(places[i], read.view().middle_rows(i, 1));
    views.push_back(read.view());
  }
  drawn.add(chosen, views);
  return drawn;
}

/// The same sums with this support.
Moments with_support(Moments sums, SupportDraw support) {
  const auto copy = [](std::span<const double> values) { return std::vector<double>(values.begin(), values.end()); };
  std::vector<double> third = copy(sums.third()), fourth = copy(sums.fourth());
  return {sums.parts(),     sums.rows(),       copy(sums.mean()), std::move(sums).scatter(),
          std::move(third), std::move(fourth), std::move(support)};
}

/// Reads every value once, so that a bad one does not leave the sums half done.
void require_finite(std::span<const Space> spaces) {
  constexpr std::size_t kChecked = std::size_t{1} << 18;
  for (const Space& space : spaces) {
    Matrix64 block(std::clamp<std::size_t>(kChecked / space.dim(), 1, space.rows()), space.dim());
    for (std::size_t first = 0; first < space.rows(); first += block.rows()) {
      space.read(first, block.view().middle_rows(0, std::min(block.rows(), space.rows() - first)));
    }
  }
}

Moments sum_up(std::span<const Space> spaces, std::vector<Moments::Part> parts, Device device, Highest highest,
               const Tell& tell) {
  Moments sums(std::move(parts));
  if (highest == Highest::second) {
    sums = Moments(sums.parts(), 0, std::vector<double>(sums.dim()), sums.scatter(), {}, {});
  }
  if (off_processor(device)) {
    const bool narrow = std::ranges::all_of(spaces, [](const Space& space) { return space.source().fits_float32(); });
    return narrow ? sum_on<float>(device, spaces, sums, tell) : sum_on<double>(device, spaces, sums, tell);
  }
  if (sums.dim() <= kWidestShared) return sum_in_shares(spaces, sums, tell);
  add_wide(sums, spaces, tell);
  return sums;
}

void add_sums(Moments& moments, std::span<const Space> spaces, std::span<const std::int64_t> ids, Device device,
              Highest highest, const Progress& progress) {
  const Work work;
  require_parallel(spaces);
  std::vector<Moments::Part> parts;
  std::string names;
  for (const Space& space : spaces) {
    parts.push_back({space.name(), space.dim()});
    names += (names.empty() ? "reading " : ", ") + space.name();
  }
  const auto tell = [&](std::size_t done, std::size_t total) {
    if (progress) progress({names, done, total, ""});
  };
  moments.require_parts(parts);
  SupportDraw drawn = draw_support(moments.support(), spaces, ids);
  if (moments.rows() > 0 && !off_processor(device) && moments.dim() > kWidestShared) {
    require_finite(spaces);
    add_wide(moments, spaces, tell);
    SupportDraw support = std::move(moments).support();  // and nothing else of them
    support.merge(drawn);
    moments = with_support(std::move(moments), std::move(support));  // NOLINT(bugprone-use-after-move)
    return;
  }
  moments.merge(with_support(sum_up(spaces, std::move(parts), device, highest, tell), std::move(drawn)));
}

}  // namespace

void require_sums(const Moments& moments) {
  const bool finite = all_finite(moments.mean()) && all_finite(moments.scatter().cells()) &&
                      all_finite(moments.third()) && all_finite(moments.fourth());
  if (finite) return;
  std::vector<std::string> names;
  for (const Moments::Part& part : moments.parts()) names.push_back(part.space);
  refuse_file(
      "the values of {} are too large to be added up; rescale the embeddings, e.g. divide them by their "
      "standard deviation",
      fmt::join(names, " or "));
}

void require_variation(const Moments& moments, std::span<const std::string> rows) {
  if (moments.rows() == 0) refuse("the moments are of no rows; statistics need at least one row");
  const auto means = as_eigen(moments.mean());
  const auto squares = as_eigen(moments.scatter().view()).diagonal();
  Eigen::Index first = 0;
  for (std::size_t i = 0; i < moments.parts().size(); ++i) {
    const auto dim = static_cast<Eigen::Index>(moments.parts()[i].dim);
    const auto mean = means.segment(first, dim);
    const double spread = squares.segment(first, dim).sum() / static_cast<double>(moments.rows());
    const std::string& space = moments.parts()[i].space;
    require_float32(space, rows[i], mean.lpNorm<Eigen::Infinity>() + std::sqrt(spread / static_cast<double>(dim)));
    constexpr double kRounding = 1e-13;  // of sums over many equal rows
    const double rounding = kRounding * mean.norm();
    if (!(spread > rounding * rounding)) {
      refuse_file("space '{}': {} are all the same, so they cannot be told apart; is it the right file?", space,
                  rows[i]);
    }
    first += dim;
  }
}

void add_moments(Moments& moments, std::span<const Space> spaces, std::span<const std::int64_t> ids, Device device,
                 const Progress& progress) {
  add_sums(moments, spaces, ids, device, Highest::fourth, progress);
}

Moments compute_moments(const Space& space, Device device, const Progress& progress) {
  return compute_joint_moments({&space, 1}, device, progress);
}

Moments compute_joint_moments(std::span<const Space> spaces, Device device, const Progress& progress) {
  return compute_joint_moments(spaces, device, Highest::fourth, progress);
}

Moments compute_joint_moments(std::span<const Space> spaces, Device device, Highest highest, const Progress& progress) {
  Moments joint;
  add_sums(joint, spaces, {}, device, highest, progress);
  std::vector<std::string> shown;
  for (const Space& space : spaces) {
    shown.push_back(fmt::format("rows {}:{} of {}", space.range().begin, space.range().end, space.source().label()));
  }
  require_variation(joint, shown);
  return joint;
}

}  // namespace kedge
