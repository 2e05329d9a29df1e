// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "map/statistics.h"

#include <kedge/bundle.h>
#include <kedge/space.h>
#include <kedge/support.h>

#include <functional>
#include <span>
#include <vector>

namespace kedge {

/// Where rows of a space can be had: those that are its support, and others that may be in their place. A file, or the
/// support rows alone.
struct RowPool {
  std::size_t rows = 0;
  std::function<Matrix64(std::span<const std::int64_t>)> gather;
  std::vector<std::int64_t> support;  ///< which of them is each support row
  bool support_alone = false;         ///< they are nothing but the support
};

[[nodiscard]] RowPool pool_of(const Space& space, std::span<const std::int64_t> support_ids);
/// The support rows, which must outlive it.
[[nodiscard]] RowPool pool_of(const Matrix64& support);

/// Checks that the rows of the sources belong together, and says how well their mixtures fit. A bundle without targets
/// keeps a sketch of the rows, for spaces to be attached. `pools` are those of the sources.
void judge_sources(Bundle& bundle, std::span<const Matrix64> supports, std::span<const Statistics> statistics,
                   std::span<const RowPool> pools);

/// The same for a space that was attached to a bundle.
void judge_attached(Attachment& attached, const Bundle& bundle, const Matrix64& support, const Statistics& statistics,
                    const RowPool& pool);

}  // namespace kedge
