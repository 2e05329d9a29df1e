// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "stopwatch.h"

#include <kedge/progress.h>

#include <string>
#include <string_view>

namespace kedge::cli {

/// Draws the progress of one step after another on stderr; a new name begins a new step.
class ProgressLine {
 public:
  /// `wait` is the time between two lines if stderr is not a terminal.
  ProgressLine(bool terminal, double wait) : terminal_(terminal), wait_(terminal ? kFrame : wait) {}
  ~ProgressLine() { wipe(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const ProgressReport& report);

 private:
  void begin(std::string_view step);
  void draw(double share, std::string_view detail, const std::string& left);
  void wipe();

  static constexpr double kFrame = 0.1;  ///< seconds between two drawings of a bar

  bool terminal_;
  double wait_;
  bool drawn_ = false;
  std::string step_;
  Stopwatch since_start_;
  double shown_ = 0;
};

}  // namespace kedge::cli
