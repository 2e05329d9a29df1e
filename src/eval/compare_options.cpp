// SPDX-License-Identifier: Apache-2.0
#include "base/option.h"

#include <kedge/metrics.h>

namespace kedge {

std::vector<Option> options_of(CompareOptions& options) {
  Option recall;
  recall.name = "recall-at";
  recall.help = "Ranks to report recall at";
  recall.type = "LIST";
  recall.least = 1;
  recall.value = &options.recall_at;
  return {std::move(recall),
          count_option("neighbors", "Neighbours to count for the k-NN overlap", options.neighbors, 1),
          name_option("device", "Where to compute ranks", options.device, parse_device, device_names())};
}

}  // namespace kedge
