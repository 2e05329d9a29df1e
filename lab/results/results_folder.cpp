// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/lab/results.h>
#include <kedge/rows.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace kedge {
namespace {

void make_folder(const std::string& folder) {
  std::error_code problem;
  std::filesystem::create_directories(folder, problem);
  if (problem || !std::filesystem::is_directory(folder)) {
    throw Error(Code::failed, fmt::format("cannot create the folder '{}'{}{}", folder, problem ? ": " : "",
                                          problem ? problem.message() : ""));
  }
}

void require_own(const StitchData& data, const std::filesystem::path& folder) {
  for (const Space& space : data.spaces) {
    const std::string& label = space.source().label();
    const std::string file = io::split_tensor(label).first;
    for (const char* name : {"results.json", "results.csv", "figures.json", "tables.md", "tables.tex"}) {
      std::error_code unknown;
      if (!std::filesystem::equivalent(folder / name, file, unknown)) continue;
      throw Error(Code::bad_argument, fmt::format("'{}' is an input; writing results there would destroy it, so name "
                                                  "another folder",
                                                  (folder / name).string()));
    }
  }
}

/// Held until the end: two processes would overwrite each other's results.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder) : folder_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (folder_ >= 0 && ::flock(folder_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
      ::close(folder_);
      throw Error(Code::failed,
                  fmt::format("another kedge is writing to '{}'; wait for it, or give another folder", folder));
    }
  }
  ~FolderLock() {
    if (folder_ >= 0) ::close(folder_);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

 private:
  int folder_;
};

/// Saves results now and then, and the rest when asked to.
class Saver {
 public:
  explicit Saver(std::string folder) : folder_(std::move(folder)) {}
  void offer(const StitchResults& results) {
    unsaved_ = results;
    if (!saved_ || Clock::now() - *saved_ >= kBetweenSaves) save_rest();
  }
  void save_rest() {
    if (!unsaved_) return;
    save_results(*unsaved_, folder_);
    unsaved_.reset();
    saved_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kBetweenSaves{1};

  std::string folder_;
  std::optional<StitchResults> unsaved_;
  std::optional<Clock::time_point> saved_;  ///< when it last saved
};

}  // namespace

StitchResults stitch_into(const std::string& folder, const StitchData& data, const StitchOptions& options, bool fresh,
                          const Progress& progress, const StitchObserver& observer) {
  make_folder(folder);
  if (!options.bundle_folder.empty()) make_folder(options.bundle_folder);
  require_own(data, folder);
  const auto writable = require_writable((std::filesystem::path(folder) / "results.json").string());
  const FolderLock lock(folder);
  Saver saver(folder);
  const auto observe = [&](const StitchEvent& event) {
    saver.offer(event.so_far);
    if (observer) observer(event);
  };
  try {
    StitchResults results = stitch(data, options, fresh ? StitchResults() : load_results(folder), progress, observe);
    save_results(results, folder);
    return results;
  } catch (...) {
    saver.save_rest();  // if this fails too, its message matters more: measurements are lost
    throw;
  }
}

}  // namespace kedge
