// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fit/examine_rows.h"
#include "space/statistics.h"

#include <kedge/bundle.h>
#include <kedge/support.h>

#include <span>

namespace kedge {

/// Checks that the rows of the sources belong together, and says how well their mixtures fit. A bundle without targets
/// keeps a sketch of the rows, for spaces to be attached. `pools` are those of the sources.
void judge_sources(Bundle& bundle, std::span<const Matrix64> supports, std::span<const Statistics> statistics,
                   std::span<const RowPool> pools);

/// The same for a space that was attached to a bundle.
void judge_attached(Attachment& attached, const Bundle& bundle, const Matrix64& support, const Statistics& statistics,
                    const RowPool& pool);

}  // namespace kedge
