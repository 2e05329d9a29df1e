// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/bundle.h>
#include <kedge/error.h>

#include <span>

namespace kedge {

/// The newest format that is read, and is written for bundles with kernels; others have the first, which all read.
inline constexpr unsigned kBundleFormat = 2, kFirstBundleFormat = 1;

// What every bundle keeps. All throw Error(Code::bad_argument).

/// Mixture, targets, sketch and support fit together.
void require_consistent(const Recipe& made, const LearnedAnchors& anchors);
/// The space fits the anchors and the similarity, and all its values are finite.
void require_fits(const Recipe& made, const LearnedAnchors& anchors, const Attachment& space);
/// The kernel of a map to or from the space, if there is one: finite, with directions of so many support rows.
void require_kernel(const std::string& space, const RelativeMap& map, std::size_t support);
/// Every source and every way back has its map, and no space is there twice.
void require_spaces(std::span<const std::string> sources, std::span<const Attachment> spaces);

/// A bundle has these spaces, but not that one.
[[nodiscard]] UnknownSpace unknown_space(std::string_view name, std::span<const std::string> known);

}  // namespace kedge
