// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kedge {

/// How the consensus of several spaces is taken; these defaults are the only ones.
struct ConsensusOptions {
  double power = 0.5;  ///< of an anchor's weight in how far the spaces agree on it; 0 weighs all anchors the same
};

}  // namespace kedge
