// SPDX-License-Identifier: Apache-2.0
#include "io/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <kedge/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>

namespace kedge::io {
namespace {

namespace fs = std::filesystem;

// Below this, having the result in the page cache for its next reader is worth more than the faster write.
constexpr std::size_t kDirectFrom = std::size_t{256} << 20;

std::string folder_of(const std::string& target) {
  const fs::path folder = fs::path(target).parent_path();
  return folder.empty() ? "." : folder.string();
}

/// Where a link leads to, even if nothing is there yet.
std::string followed(fs::path path) {
  std::error_code unknown;
  for (int links = 0; links < 40 && fs::is_symlink(fs::symlink_status(path, unknown)); ++links) {
    path = path.parent_path() / fs::read_symlink(path, unknown);  // an absolute one replaces the folder
  }
  return path.string();
}

/// Random, because another container that writes to the same folder may have the same process id. std::random_device
/// would make a program built on Debian 12 need glibc 2.36.
std::string unused_name(const std::string& target) {
  std::uint32_t chance = 0;
  if (::getentropy(&chance, sizeof chance) != 0) {
    throw Error(Code::failed, fmt::format("cannot find an unused name beside '{}': {}", target, std::strerror(errno)));
  }
  const fs::path path(target);
  return (path.parent_path() / fmt::format(".kedge-{}-{:08x}.partial", ::getpid(), chance)).string();
}

/// Calls make(name) with names beside the target until one is free, and returns that; empty for any other errno.
template <class Make>
std::string take_name(const std::string& target, const Make& make) {
  for (;;) {
    std::string name = unused_name(target);
    if (make(name)) return name;
    if (errno != EEXIST) return "";
  }
}

/// The way to an open file that has no name.
std::string descriptor_path(int file) {
  return fmt::format("/proc/self/fd/{}", file);
}

/// A file without a name, which vanishes with the process however that ends; -1 if the file system has no such files,
/// or if it could not be given a name later.
int open_nameless(const std::string& target) {
  const int file = ::open(folder_of(target).c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0666);
  if (file >= 0 && ::access(descriptor_path(file).c_str(), F_OK) != 0) {
    ::close(file);
    return -1;
  }
  return file;
}

}  // namespace

OutputFile::OutputFile(const std::string& path, std::size_t size) : path_(path) {
  if (path.empty()) throw Error(Code::bad_argument, "cannot write a file without a name; give one");
  std::error_code unknown;
  const fs::file_status found = fs::status(path, unknown);
  if (!fs::status_known(found)) refuse("write", unknown.value());
  if (fs::is_directory(found)) refuse("write", EISDIR);
  constexpr int kFlags = O_WRONLY | O_CREAT | O_CLOEXEC;
  if (fs::exists(found) && !fs::is_regular_file(found)) {
    // A device or a pipe cannot be replaced, and a pipe such as /dev/stdout has no other name than this one.
    // Without O_NONBLOCK, a pipe nobody reads would wait for ever.
    file_ = ::open(path.c_str(), kFlags | O_NONBLOCK, 0666);
    if (file_ >= 0) ::fcntl(file_, F_SETFL, ::fcntl(file_, F_GETFL) & ~O_NONBLOCK);  // but wait for a slow reader
  } else {
    target_ = fs::exists(found) ? fs::canonical(path, unknown).string() : followed(path);
    if (target_.empty()) refuse("write", unknown.value());
    file_ = open_nameless(target_);
    if (file_ < 0) {
      temporary_ = take_name(target_, [&](const std::string& name) {
        file_ = ::open(name.c_str(), kFlags | O_EXCL, 0666);
        return file_ >= 0;
      });
    }
  }
  if (file_ < 0) {
    const int problem = errno;
    temporary_.clear();
    refuse("write", problem);
  }
  struct stat old {};
  if (is_regular() && ::stat(target_.c_str(), &old) == 0) ::fchmod(file_, old.st_mode & 0777);
  if (is_regular() && size >= kDirectFrom) reserve(size);
}

OutputFile::~OutputFile() {
  discard();
}

/// Takes the space now: a disk that is too small says so before the work, and writes that do not extend the file need
/// not wait for each other.
void OutputFile::reserve(std::size_t size) {
  int result = 0;
  do {
    result = ::fallocate(file_, 0, 0, static_cast<off_t>(size));
  } while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EOPNOTSUPP) {
    const int problem = errno;
    discard();
    refuse("write", problem);
  }
  const std::string path = temporary_.empty() ? descriptor_path(file_) : temporary_;
  direct_ = ::open(path.c_str(), O_WRONLY | O_DIRECT | O_CLOEXEC);
}

void OutputFile::discard() {
  if (direct_ >= 0) ::close(direct_);
  if (file_ >= 0) ::close(file_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  direct_ = file_ = -1;
  temporary_.clear();
}

void OutputFile::refuse(const char* doing, int problem) const {
  const char* hint = problem == ENOSPC || problem == EDQUOT ? "; free some space and run it again"
                     : problem == ENOENT                    ? "; create the folder first"
                                                            : "";
  throw Error(Code::failed, fmt::format("cannot {} '{}': {}{}", doing, path_, std::strerror(problem), hint));
}

void OutputFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) refuse("write", written < 0 ? errno : ENOSPC);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write_at(std::size_t offset, std::span<const std::byte> bytes) {
  const auto aligned = [](std::size_t value) { return value % kAlignment == 0; };
  std::size_t direct = 0;
  if (direct_ >= 0 && aligned(offset) && aligned(reinterpret_cast<std::uintptr_t>(bytes.data()))) {
    direct = bytes.size() / kAlignment * kAlignment;
  }
  if (direct > 0) write_through(direct_, offset, bytes.first(direct));
  write_through(file_, offset + direct, bytes.subspan(direct));
}

void OutputFile::write_through(int file, std::size_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0 && errno == EINVAL && file == direct_) {  // a short write left the rest unaligned
      file = file_;
      continue;
    }
    if (written <= 0) refuse("write", written < 0 ? errno : ENOSPC);
    offset += static_cast<std::size_t>(written);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::finish(Durability durability) {
  if (is_regular() && durability == Durability::flushed && ::fsync(file_) != 0) refuse("flush", errno);
  if (is_regular() && temporary_.empty()) give_name();
  const int file = file_;
  file_ = -1;
  if (::close(file) != 0) refuse("close", errno);
  if (!is_regular()) return;
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) refuse("replace", errno);
  temporary_.clear();
  if (durability == Durability::flushed) {
    // The new name itself must reach the disk too.
    const int directory = ::open(folder_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory >= 0) {
      ::fsync(directory);
      ::close(directory);
    }
  }
}

/// Only rename() replaces an old file at once, and it needs a name to start from.
void OutputFile::give_name() {
  temporary_ = take_name(target_, [&](const std::string& name) {
    return ::linkat(AT_FDCWD, descriptor_path(file_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  });
  if (temporary_.empty()) refuse("write", errno);
}

}  // namespace kedge::io
