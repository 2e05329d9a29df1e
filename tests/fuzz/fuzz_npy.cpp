// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "io/array.h"

namespace {

using namespace kedge;

void read(std::string_view text) {
  const std::vector<std::byte> bytes = fuzz::bytes_of(text);
  fuzz::within_memory(bytes.size(), [&] {
    fuzz::refuse_or_read([&] {
      const io::MemoryBytes file(bytes, "input");
      const io::ArrayInfo array = io::parse_npy(file);
      fuzz::read_all_values(file, array);
      io::require_matrix(array, "input");
    });
  });
}

std::string frame(const fuzz::Parts& parts) {
  std::string file = "\x93NUMPY";
  file += {'\x02', '\x00'};
  for (int i = 0; i < 4; ++i) file += static_cast<char>(parts.header.size() >> (8 * i) & 0xff);
  return file.append(parts.header).append(parts.values);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text = fuzz::text_of(data, size);
  read(text);
  read(frame(fuzz::parts_of(text)));
  return 0;
}
