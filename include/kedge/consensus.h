// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace kedge {

/// How the consensus of several spaces is taken; these defaults are the only ones.
struct ConsensusOptions {
  double power = 0.5;  ///< an anchor's weight is the spaces' agreement on it to this power; 0: all the same

  std::size_t refine_epochs = 0;    ///< at most so many passes of gradient descent from the closed form on
  double refine_rate = 0.01;        ///< its learning rate, relative to the size of the targets
  double refine_tau = 0.05;         ///< temperature of its contrastive loss
  std::size_t refine_batch = 1024;  ///< parallel rows per step; a tenth of all rows, but no more than this, is held out
  std::size_t refine_patience = 5;  ///< epochs without a better loss on the rows held out before it stops
};

}  // namespace kedge
