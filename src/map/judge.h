// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "map/attach.h"

#include <span>

namespace kedge {

/// Checks that the rows of the sources belong together, and says how well their mixtures fit. A bundle without targets
/// keeps a sketch of the rows, for spaces to be attached.
void judge_sources(Bundle& bundle, std::span<const Space> spaces, std::span<const Statistics> statistics);

/// The same for a space that was attached to a bundle. With `support_rows` it holds nothing but the support.
void judge_attached(Attachment& attached, const Bundle& bundle, const Space& space, const Statistics& statistics,
                    bool support_rows);

}  // namespace kedge
