// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "fit/attach.h"
#include "fit/examine_rows.h"

#include <kedge/fit.h>

#include <span>

namespace kedge {

/// Checks that the rows of the sources belong together, and says how well their mixtures fit. Anchors without targets
/// get a sketch of the rows, for spaces to be attached.
void judge_sources(Learned& learned, const Recipe& made, const FitInput& input, std::span<const Statistics> statistics);

/// The same for a space that was attached to a bundle.
void judge_attached(Attachment& attached, const Bundle& bundle, const Matrix64& support, const Statistics& statistics,
                    const RowPool& pool);

}  // namespace kedge
