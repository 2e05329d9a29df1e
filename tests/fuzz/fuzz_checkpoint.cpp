// SPDX-License-Identifier: Apache-2.0
#include "anchors/param/param.h"
#include "fuzz.h"

namespace {

using namespace kedge;

constexpr const char* kPurpose = R"({"anchors":2,"seed":0,"param":{"batch":8},"spaces":[["a",6,3]]})";

void load(std::string_view text) {
  const std::vector<std::byte> bytes = fuzz::bytes_of(text);
  fuzz::within_memory(bytes.size(), [&] {
    try {
      const Checkpoint found = read_checkpoint(io::MemoryBytes(bytes, "input"), kPurpose);
      if (found.purpose != kPurpose) std::abort();
    } catch (const Error& error) {  // another training's checkpoint is a wrong argument
      if (error.code() == Code::failed || !fuzz::is_sentence(error.what())) std::abort();
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::load_both_ways(data, size, load);
}
