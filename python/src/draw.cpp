// SPDX-License-Identifier: Apache-2.0
#include <kedge/draw.h>

#include "arrays.h"
#include "inputs.h"

#include <fmt/format.h>
#include <kedge/error.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace kedge::python {
namespace {

using namespace nb::literals;
template <class T>
using Values = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Keys = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>>;

template <class Offset>
nb::object numbers_of(const Values<Offset>& offsets, const Values<std::uint8_t>& bytes) {
  const std::size_t texts = std::max<std::size_t>(1, offsets.shape(0)) - 1;
  std::vector<std::int64_t> numbers(texts);
  {
    const nb::gil_scoped_release without_gil;
    for (std::size_t i = 0; i < texts; ++i) {
      const Offset first = offsets.data()[i], end = offsets.data()[i + 1];
      if (first < 0 || end < first || static_cast<std::size_t>(end) > bytes.shape(0)) {
        throw Error(Code::bad_argument, fmt::format("ids: text {} lies at bytes {} to {}, but there are {} bytes", i,
                                                    first, end, bytes.shape(0)));
      }
      const auto* text = reinterpret_cast<const char*>(bytes.data()) + first;
      numbers[i] = id_number(std::string_view(text, static_cast<std::size_t>(end - first)));
    }
  }
  return make_integers(numbers);
}

Keys keys_of(const Integers& numbers, std::uint64_t seed) {
  const std::size_t count = numbers.shape(0);
  auto* keys = new std::uint64_t[std::max<std::size_t>(1, count)];
  const nb::capsule owner(keys, [](void* held) noexcept { delete[] static_cast<std::uint64_t*>(held); });
  {
    const nb::gil_scoped_release without_gil;
    std::transform(numbers.data(), numbers.data() + count, keys,
                   [&](std::int64_t number) { return draw_key(number, seed); });
  }
  return {keys, {count}, owner};
}

}  // namespace

void bind_draw(nb::module_& module) {
  constexpr const char* kNumbers =
      "The numbers of text ids that lie in memory as in a column of Arrow: text i is bytes[offsets[i]:offsets[i + 1]].";
  module.def("id_numbers", &numbers_of<std::int64_t>, "offsets"_a.noconvert(), "bytes"_a.noconvert(), kNumbers);
  module.def("id_numbers", &numbers_of<std::int32_t>, "offsets"_a.noconvert(), "bytes"_a.noconvert(), kNumbers);
  module.def("draw_keys", &keys_of, "numbers"_a, "seed"_a,
             "What the support is drawn by: rows with the smallest keys of their id numbers are in it.");
}

}  // namespace kedge::python
