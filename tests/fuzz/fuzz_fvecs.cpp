// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"
#include "io/fvecs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kedge;
  const std::vector<std::byte> file = fuzz::bytes_of(fuzz::text_of(data, size));
  fuzz::refuse_or_read([&] {
    const io::FvecsInfo info = io::parse_fvecs(file, "input");
    std::vector<float> floats(info.cols);
    std::vector<double> doubles(info.cols);
    for (std::size_t row = 0; row < info.rows; ++row) {
      const std::byte* values = io::fvecs_row(file, info, row, "input");
      io::convert(values, io::DType::f32, false, std::span(floats));
      io::convert(values, io::DType::f32, false, std::span(doubles));
    }
  });
  return 0;
}
