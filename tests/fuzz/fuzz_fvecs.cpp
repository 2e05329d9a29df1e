// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "io/array.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kedge;
  const std::vector<std::byte> bytes = fuzz::bytes_of(fuzz::text_of(data, size));
  fuzz::within_memory(bytes.size(), [&] {
    fuzz::refuse_or_read([&] {
      const io::MemoryBytes file(bytes, "input");
      const io::FvecsInfo info = io::parse_fvecs(file);
      std::vector<std::byte> row(info.row_bytes());
      std::vector<float> floats(info.cols);
      std::vector<double> doubles(info.cols);
      for (std::size_t r = 0; r < info.rows; ++r) {
        file.read(r * info.row_bytes(), row);
        const std::byte* values = io::fvecs_values(row, info, r, "input");
        io::convert(values, io::DType::f32, false, std::span(floats));
        io::convert(values, io::DType::f32, false, std::span(doubles));
      }
    });
  });
  return 0;
}
