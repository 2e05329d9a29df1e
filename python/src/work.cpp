// SPDX-License-Identifier: Apache-2.0
#include "work.h"

#include <atomic>
#include <chrono>
#include <thread>

namespace kedge::python {
namespace {

std::atomic<bool> interrupted = false;
std::atomic<bool> ending = false;
std::atomic<int> calls = 0;
static_assert(std::atomic<bool>::is_always_lock_free);  // as a signal handler needs it

void on_interrupt(int) {
  interrupted = true;
}

bool on_main_thread() {
  const nb::object threading = nb::module_::import_("threading");
  return threading.attr("current_thread")().is(threading.attr("main_thread")());
}

void stop_calls() {
  constexpr int kMostWaits = 1000;  // a callback of the user's may never return
  ending = true;
  const nb::gil_scoped_release without_gil;
  for (int i = 0; i < kMostWaits && calls > 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

}  // namespace

Call::Call() {
  require_running();
  ++calls;
}

Call::~Call() {
  --calls;
}

void require_running() {
  if (ending) throw Error(Code::failed, "Python is shutting down, so kedge stopped its work");
}

void stop_calls_at_exit() {
  nb::module_::import_("atexit").attr("register")(nb::cpp_function(stop_calls));
}

InterruptWatch::InterruptWatch() {
  if (!on_main_thread() || ::sigaction(SIGINT, nullptr, &before_) != 0 || before_.sa_handler == SIG_IGN) return;
  struct sigaction action {};
  action.sa_handler = on_interrupt;
  if (before_.sa_handler != on_interrupt) interrupted = false;  // a call inside another leaves the outer one its signal
  watching_ = ::sigaction(SIGINT, &action, nullptr) == 0;
}

InterruptWatch::~InterruptWatch() {
  const bool late = watching_ && interrupted;  // it came after the last report; Python still wants to know
  restore();
  if (late) PyErr_SetInterrupt();
}

void InterruptWatch::restore() {
  if (watching_) ::sigaction(SIGINT, &before_, nullptr);
  watching_ = false;
}

Progress InterruptWatch::progress(const nb::object& report) const {
  const bool watching = watching_;
  if (report.is_none()) {
    return [watching](const ProgressReport&) {
      if ((watching && interrupted) || ending) throw Interrupted();
    };
  }
  // A handle, since the library may copy the function without the GIL; run() keeps what it points to.
  return [watching, function = nb::handle(report)](const ProgressReport& state) {
    if ((watching && interrupted) || ending) throw Interrupted();
    const nb::gil_scoped_acquire with_gil;
    function(state.step, state.done, state.total, state.detail);
  };
}

nb::object reporter(const nb::object& progress) {
  if (progress.is_none() || progress.is(nb::bool_(false))) return nb::none();
  if (progress.is(nb::bool_(true))) return nb::module_::import_("kedge._progress").attr("Bar")();
  if (PyCallable_Check(progress.ptr()) == 0) {
    throw nb::type_error("progress must be True, False or a function of step, done, total and detail");
  }
  return progress;
}

void InterruptWatch::raise() {
  restore();
  require_running();
  interrupted = false;
  PyErr_SetInterrupt();
  if (PyErr_CheckSignals() == 0) PyErr_SetNone(PyExc_KeyboardInterrupt);  // a handler of the user's let it pass
  throw nb::python_error();
}

}  // namespace kedge::python
