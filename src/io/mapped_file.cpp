// SPDX-License-Identifier: Apache-2.0
#include "io/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <kedge/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kedge::io {
namespace {

[[noreturn]] void refuse(const std::string& path, const char* what) {
  throw Error(Code::bad_file, fmt::format("cannot read '{}': {}", path, what));
}

}  // namespace

MappedFile::MappedFile(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe nobody writes to would wait for ever.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) refuse(path, std::strerror(errno));
  struct stat status {};
  const bool known = ::fstat(file, &status) == 0;
  void* mapped = nullptr;
  int problem = known ? 0 : errno;
  if (known && S_ISREG(status.st_mode) && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    mapped = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) problem = errno;
  }
  ::close(file);
  if (problem != 0) refuse(path, std::strerror(problem));
  if (!S_ISREG(status.st_mode)) refuse(path, "it is not a regular file; kedge maps its inputs, so give it a file");
  data_ = static_cast<std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void MappedFile::release(std::size_t offset, std::size_t size) const {
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t first = offset / page * page;
  const std::size_t last = std::min(size_, offset + size) / page * page;
  if (data_ != nullptr && last > first) ::madvise(data_ + first, last - first, MADV_DONTNEED);
}

}  // namespace kedge::io
