// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/bundle.h>
#include <kedge/space.h>

#include <cstdint>
#include <optional>
#include <span>

namespace kedge {

/// Mean and covariance of one space, and how the latter is to be whitened.
struct Statistics {
  Moments moments;
  WhiteningOptions whitening;
};

/// Chooses the space's shrinkage by the bundle's rule.
[[nodiscard]] Statistics statistics_of(const Bundle& bundle, const Space& space, Moments moments);

/// Where ridge works: rows are centred and whitened for wip, centred and scaled to a common spread for inner.
[[nodiscard]] Whitening coordinates_of(Similarity similarity, const Statistics& statistics);

/// Keeps these targets Z, support x anchors, and their signed mixture Z^T / K.
void set_targets(Bundle& bundle, Matrix targets);

/// The map of a space, without a decoder. `support` are its support rows, in support order.
[[nodiscard]] Attachment attach_rows(const Bundle& bundle, const Space& space, const Matrix64& support,
                                     const Statistics& statistics, AttachBy by, std::optional<double> ridge);

/// The way back: ridge from the bundle's targets to the space's support rows.
[[nodiscard]] Decoder decoder_of(const Bundle& bundle, const Space& space, const Matrix64& support);

}  // namespace kedge
