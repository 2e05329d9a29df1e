// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/bundle.h>
#include <kedge/error.h>

#include <span>
#include <string>
#include <string_view>

namespace kedge {

// What every bundle keeps, whether it was made, read or put together by hand. All throw Error(Code::bad_argument).

/// Mixture, targets, sketch and support fit together.
void require_consistent(const Bundle& bundle);
/// The space fits the bundle's anchors and similarity, and all its values are finite.
void require_fits(const Bundle& bundle, const Attachment& space);
/// The kernel of a map to or from the space, where there is one: finite, with directions of so many support rows.
void require_kernel(const std::string& space, const RelativeMap& map, std::size_t support);
/// A bundle has these spaces, but not that one.
[[nodiscard]] UnknownSpace unknown_space(std::string_view name, std::span<const std::string> known);
/// Every source and every way back has its map, and no space is there twice.
void require_sources(const Bundle& bundle);

}  // namespace kedge
