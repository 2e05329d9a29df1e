// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings.h"

#include <kedge/error.h>
#include <kedge/progress.h>

#include <csignal>
#include <exception>
#include <utility>

namespace kedge::python {

/// Thrown through the library by a report of progress after Ctrl-C, or while Python ends.
struct Interrupted : std::exception {};

/// A call from Python that is under way. Before Python ends, those on daemon threads are stopped and waited for: a
/// thread that Python ends while it is inside C++ takes the process with it.
class Call {
 public:
  /// Throws Error(Code::failed) where Python is about to end.
  Call();
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};
/// Throws Error(Code::failed) where Python is about to end; for work that is a matter of blocks.
void require_running();
/// To be called once, when the module is loaded.
void stop_calls_at_exit();

/// While it lives, Ctrl-C stops the work at the next report of progress, on whatever thread that comes. Python looks at
/// signals only between its own steps, and on its main thread, where there is none as long as the work lasts.
class InterruptWatch {
 public:
  InterruptWatch();
  ~InterruptWatch();
  InterruptWatch(const InterruptWatch&) = delete;
  InterruptWatch& operator=(const InterruptWatch&) = delete;

  /// Stops the work where Ctrl-C was pressed, and otherwise calls `report`, which may be None, with step, done, total
  /// and detail.
  [[nodiscard]] Progress progress(const nb::object& report) const;
  /// Leaves Ctrl-C to Python again and raises what it raises there.
  [[noreturn]] void raise();

 private:
  void restore();
  bool watching_ = false;
  struct sigaction before_ {};
};

/// What an argument `progress` asks for: None for False, a bar for True, a function itself.
[[nodiscard]] nb::object reporter(const nb::object& progress);

/// Runs work(progress) without the GIL. `asked` is the caller's argument `progress`. With `only_arrays` a fault of the
/// data is one of the arguments, and a ValueError.
template <class Work>
auto run(const nb::object& asked, bool only_arrays, Work&& work) {
  const Call call;
  const nb::object report = reporter(asked);
  InterruptWatch watch;
  const Progress progress = watch.progress(report);
  try {
    const nb::gil_scoped_release without_gil;
    return std::forward<Work>(work)(progress);
  } catch (const Interrupted&) {
    watch.raise();
  } catch (const Error& problem) {
    if (only_arrays && problem.code() == Code::bad_file) throw Error(Code::bad_argument, problem.text());
    throw;
  }
}

}  // namespace kedge::python
