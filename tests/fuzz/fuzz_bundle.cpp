// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"

#include <kedge/bundle.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

using namespace kedge;

/// A file in memory, so that the loader can be given a path.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view text) : file_(::memfd_create("bundle", MFD_CLOEXEC)) {
    if (file_ < 0 || ::write(file_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) std::abort();
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(file_); }

 private:
  int file_;
};

void load(std::string_view text) {
  const MemoryFile file(text);
  fuzz::refuse_or_read([&] {
    const Bundle bundle = load_bundle(file.path());
    for (const Attachment& space : bundle.spaces) {
      if (space.map.output_dim() != bundle.mixture.rows() || !bundle.has(space.space())) std::abort();
      if (space.decoder && space.decoder->weight.rows() != space.map.input_dim()) std::abort();
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  load(text);
  load(fuzz::frame_safetensors(fuzz::parts_of(text)));
  return 0;
}
