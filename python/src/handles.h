// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings.h"

#include <kedge/attachment.h>
#include <kedge/bundle.h>
#include <kedge/error.h>
#include <kedge/moments.h>
#include <kedge/translate.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

namespace kedge::python {

/// What Python calls a RelativeMap. Shared and never changed, so that threads may use it while bundles grow.
struct MapHandle {
  std::shared_ptr<const Attachment> space;
  [[nodiscard]] const RelativeMap& map() const { return *space->map; }
};

/// What Python calls a Bundle: attaching replaces the bundle it points to, and leaves the old one to whoever reads it.
struct BundleHandle {
  std::shared_ptr<const Bundle> bundle;
  [[nodiscard]] MapHandle map(const std::string& name) const {
    return {std::make_shared<const Attachment>(bundle->space(name))};
  }
};

/// What Python calls Moments: a value that one thread at a time works with, for as long as that takes. Nobody waits for
/// it with the GIL held, so whoever works with it may take the GIL.
class MomentsHandle {
 public:
  MomentsHandle() = default;
  explicit MomentsHandle(Moments moments) : moments_(std::move(moments)) {}
  MomentsHandle(const MomentsHandle& other) : moments_(other.read([](const Moments& held) { return held; })) {}
  MomentsHandle(MomentsHandle&& temporary) noexcept : moments_(std::move(temporary.moments_)) {}
  MomentsHandle& operator=(const MomentsHandle&) = delete;

  /// Returns work(moments), which runs without the GIL. Throws Error(Code::bad_argument) if this thread is at work with
  /// them already: when a report of progress looks at the moments that are being added to.
  template <class Work>
  std::invoke_result_t<Work, const Moments&> read(Work&& work) const {
    const nb::gil_scoped_release without_gil;
    const Turn turn(*this);
    return std::forward<Work>(work)(moments_);
  }
  /// The same with two that are not one.
  template <class Work>
  void change_with(const MomentsHandle& other, Work&& work) {
    const nb::gil_scoped_release without_gil;
    const bool first = std::less<const MomentsHandle*>()(this, &other);  // so that threads wait in one order
    const Turn turn(first ? *this : other), other_turn(first ? other : *this);
    std::forward<Work>(work)(moments_, other.moments_);
  }
  /// For a thread that does not hold the GIL.
  template <class Work>
  auto change_without_gil(Work&& work) {
    const Turn turn(*this);
    return std::forward<Work>(work)(moments_);
  }
  /// Reports the progress of such a change. Worker threads report too, and must not wait for the change to end.
  [[nodiscard]] Progress reporting(const Progress& report) const {
    return [this, report](const ProgressReport& step) {
      reporter_ = std::this_thread::get_id();
      report(step);
    };
  }

 private:
  class Turn {
   public:
    explicit Turn(const MomentsHandle& of) : of_(of) {
      const std::thread::id own = std::this_thread::get_id();
      if (of.owner_ == own || of.reporter_ == own) {
        throw Error(Code::bad_argument, "these moments are being added to; look at them when that is done");
      }
      of.one_at_a_time_.lock();
      of.owner_ = own;
    }
    ~Turn() {
      of_.owner_ = of_.reporter_ = std::thread::id();
      of_.one_at_a_time_.unlock();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    const MomentsHandle& of_;
  };

  Moments moments_;
  mutable std::mutex one_at_a_time_;
  mutable std::atomic<std::thread::id> owner_{}, reporter_{};
};

struct TranslatorHandle {
  std::shared_ptr<const Translator> translator;
};

/// A warning, unless the text is empty. `level` is how many calls up the user is.
void warn(const std::string& text, int level);
/// One for each.
void warn_of(std::span<const std::string> warnings, int level);

}  // namespace kedge::python
