// SPDX-License-Identifier: Apache-2.0
#include "io/byte_source.h"

#include "base/wording.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace kedge::io {

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK, opening a pipe nobody writes to would wait for ever.
  const int file = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) refuse_file("cannot read '{}': {}", path_, std::strerror(errno));
  struct stat status {};
  const int problem = ::fstat(file, &status) == 0 ? 0 : errno;
  if (problem != 0 || !S_ISREG(status.st_mode)) {
    ::close(file);
    refuse_file("cannot read '{}': {}", path_,
                problem != 0 ? std::strerror(problem)
                             : "it is not a regular file; kedge reads its inputs in any order, so give it a file");
  }
  file_ = file;
  size_ = static_cast<std::size_t>(status.st_size);
}

InputFile::~InputFile() {
  ::close(file_);
}

void InputFile::read(std::size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(file_, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) refuse_file("cannot read '{}': {}", path_, std::strerror(errno));
    if (count == 0) {
      refuse_file(
          "cannot read '{}': it got shorter while it was being read (it had {} bytes at first); run this again "
          "when nothing is writing to it",
          path_, size_);
    }
    offset += static_cast<std::size_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
}

void MemoryBytes::read(std::size_t offset, std::span<std::byte> to) const {
  if (offset > bytes_.size() || to.size() > bytes_.size() - offset) {
    refuse_file("cannot read '{}': it has only {} bytes", label_, bytes_.size());
  }
  std::copy_n(bytes_.data() + offset, to.size(), to.data());
}

}  // namespace kedge::io
