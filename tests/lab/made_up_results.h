// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stitch/resample.h"

#include <kedge/lab/stitch.h>

#include <cstdint>
#include <string>

namespace kedge::test {

inline Measurement measured(const std::string& method, const std::string& trained_on, const std::string& encoder,
                            std::uint64_t seed, double f1, double mrr = 0.5) {
  Measurement m;
  m.method = method;
  m.trained_on = trained_on;
  m.encoder = encoder;
  m.seed = seed;
  m.labels = Classification{f1, f1, f1};
  if (method == "absolute") return m;
  m.point = {300, 5000, "0.15"};
  m.rr_std = 1.25;
  if (trained_on == encoder) return m;
  Comparison pair;
  pair.mrr = mrr;
  pair.recall = {mrr / 2, mrr, mrr};
  pair.nmse = 1 - mrr;
  m.pair = pair;
  return m;
}

inline StitchResults two_encoders() {
  StitchResults results;
  results.settings = "{}";
  for (const std::uint64_t seed : {0U, 1U, 2U}) {
    const double up = 0.01 * static_cast<double>(seed);
    results.measurements.push_back(measured("absolute", "x_1", "x_1", seed, 0.95));
    results.measurements.push_back(measured("random-cosine", "x_1", "x_1", seed, 0.80 + up));
    results.measurements.push_back(measured("random-cosine", "y&", "x_1", seed, 0.30 + up, 0.1));
    results.measurements.push_back(measured("consensus", "x_1", "x_1", seed, 0.80 + up));
    results.measurements.push_back(measured("consensus", "y&", "x_1", seed, 0.90 + up, 0.8));
  }
  return results;
}

/// Resampled F1 and MRR that scatter around the measured ones: by `noise` with the same signs for all, as rows that
/// all find hard make them, and by `apart` with signs of the measurement's own.
inline StitchResults resampled(StitchResults results, double noise, double apart) {
  unsigned number = 0;
  for (Measurement& m : results.measurements) {
    ++number;
    for (std::size_t i = 0; i < Resamples::kCount; ++i) {
      const double moved = (i % 2 == 0 ? noise : -noise) + ((i >> (1 + number % 4)) % 2 == 0 ? apart : -apart);
      m.resampled["weighted_f1"].push_back(m.labels->weighted_f1 + moved);
      if (m.pair) m.resampled["mrr"].push_back(m.pair->mrr + moved);
    }
  }
  return results;
}

}  // namespace kedge::test
