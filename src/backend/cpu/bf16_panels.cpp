// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/bf16_panels.h"

#include "backend/cpu/bfloat16.h"
#include "backend/cpu/rows.h"
#include "base/every_processor.h"

#include <algorithm>

namespace kedge::cpu {
namespace {

constexpr std::size_t kStrip =
    256;  // values that are rounded at a time: a multiple of any group, and no fewer than a panel's lines

/// As many as there are, then zeros.
KEDGE_EVERY_PROCESSOR void round_values(const float* from, std::size_t there, std::size_t count, std::uint16_t* to) {
  for (std::size_t i = 0; i < there; ++i) to[i] = to_bfloat16(from[i]);
  for (std::size_t i = there; i < count; ++i) to[i] = 0;
}

/// A line's values to their places, a group in every `step`.
template <std::size_t group>
void deal(const std::uint16_t* from, std::size_t count, std::size_t step, std::uint16_t* to) {
  for (std::size_t i = 0; i < count; i += group, to += step) std::copy_n(from + i, group, to);
}

/// One group of several lines, from a row for each of its values.
template <std::size_t group>
void interleave(const std::uint16_t* from, std::size_t lines, std::uint16_t* to) {
  for (std::size_t line = 0; line < lines; ++line) {
    for (std::size_t i = 0; i < group; ++i) to[line * group + i] = from[i * kStrip + line];
  }
}

/// work.operator()<group>(), so that loops over groups are unrolled.
template <class Work>
void with_group(std::size_t group, const Work& work) {
  switch (group) {
    case 2: return work.template operator()<2>();
    case 4: return work.template operator()<4>();
    default: return work.template operator()<32>();
  }
}

}  // namespace

Bf16Panels::Bf16Panels(const Bf16Kernel& kernel, Side side)
    : width_(side == Side::left ? kernel.rows : kernel.cols),
      group_(side == Side::left ? kernel.left_group : kernel.right_group),
      unit_(std::max(kernel.left_group, kernel.right_group)) {}

void Bf16Panels::pack(ConstPanel matrix, bool turned) {
  const std::size_t values = turned ? matrix.rows : matrix.cols;
  lines_ = turned ? matrix.cols : matrix.rows;
  inner_ = (values + unit_ - 1) / unit_ * unit_;
  const std::size_t needed = panels() * width_ * inner_ * sizeof(std::uint16_t);
  if (cells_.size() * sizeof(CacheLine) < needed) cells_.resize((needed + sizeof(CacheLine) - 1) / sizeof(CacheLine));
  with_group(group_, [&]<std::size_t group>() { turned ? pack_columns<group>(matrix) : pack_rows<group>(matrix); });
}

template <std::size_t group>
void Bf16Panels::pack_rows(ConstPanel matrix) {
  for_rows(panels(), width_ * inner_, [&](std::size_t panel) {
    std::uint16_t strip[kStrip];
    for (std::size_t first = 0; first < inner_; first += kStrip) {
      const std::size_t count = std::min(kStrip, inner_ - first);
      for (std::size_t i = 0; i < width_; ++i) {
        const std::size_t line = panel * width_ + i;
        const std::size_t there = line < lines_ ? std::min(count, matrix.cols - std::min(first, matrix.cols)) : 0;
        round_values(there == 0 ? nullptr : matrix.data + line * matrix.stride + first, there, count, strip);
        deal<group>(strip, count, width_ * group, to(panel, first) + i * group);
      }
    }
  });
}

/// Several panels at a time, as their lines stand side by side in memory.
template <std::size_t group>
void Bf16Panels::pack_columns(ConstPanel matrix) {
  const std::size_t together = std::max<std::size_t>(1, kStrip / width_);
  for_rows((panels() + together - 1) / together, together * width_ * inner_, [&](std::size_t run) {
    const std::size_t begin = run * together, end = std::min(panels(), begin + together), line = begin * width_;
    const std::size_t count = (end - begin) * width_;
    std::uint16_t strips[group * kStrip];
    for (std::size_t first = 0; first < inner_; first += group) {
      for (std::size_t i = 0; i < group; ++i) {
        const std::size_t there = first + i < matrix.rows ? std::min(count, lines_ - line) : 0;
        round_values(there == 0 ? nullptr : matrix.data + (first + i) * matrix.stride + line, there, count,
                     strips + i * kStrip);
      }
      for (std::size_t panel = begin; panel < end; ++panel) {
        interleave<group>(strips + (panel - begin) * width_, width_, to(panel, first));
      }
    }
  });
}

}  // namespace kedge::cpu
