// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"

#include <kedge/bundle.h>

namespace {

using namespace kedge;

void load(std::string_view text) {
  const std::vector<std::byte> bytes = fuzz::bytes_of(text);
  fuzz::refuse_or_read([&] {
    const Bundle bundle = bundle_from_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, "input");
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
