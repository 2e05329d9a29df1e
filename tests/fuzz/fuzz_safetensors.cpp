// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "io/safetensors.h"

namespace {

using namespace kedge;

void read(std::string_view text) {
  const std::vector<std::byte> bytes = fuzz::bytes_of(text);
  fuzz::within_memory(bytes.size(), [&] {
    fuzz::refuse_or_read([&] {
      const io::MemoryBytes file(bytes, "input");
      const io::SafetensorsInfo info = io::parse_safetensors(file);
      for (const auto& entry : info.tensors) {
        fuzz::read_all_values(file, entry.second);
        fuzz::refuse_or_read([&] { io::require_matrix(info.tensor(entry.first, "input"), "input"); });
      }
    });
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  read(text);
  read(fuzz::frame_safetensors(fuzz::parts_of(text)));
  return 0;
}
