// SPDX-License-Identifier: Apache-2.0
#include "fuzz.h"

#include <kedge/draw.h>
#include <kedge/moments.h>

#include <cmath>

namespace {

using namespace kedge;

void require_sound(const SupportDraw& support, std::size_t rows, std::size_t dim) {
  if (!support.keeps_rows()) return;
  if (support.size() > support.count() || support.size() > rows) std::abort();
  if (support.size() != 0 && support.dim() != dim) std::abort();
  for (const std::int64_t id : support.ids()) {
    if (id < 0) std::abort();
  }
  const Matrix values = support.rows();
  for (const float value : values.cells()) {
    if (!std::isfinite(value)) std::abort();
  }
}

void require_sound(const Moments& moments) {
  std::size_t dim = 0;
  for (const Moments::Part& part : moments.parts()) {
    if (part.dim == 0 || printable(part.space) != part.space) std::abort();
    dim += part.dim;
  }
  if (dim == 0 || moments.dim() != dim || moments.scatter().rows() != dim) std::abort();
  for (const double value : moments.scatter().cells()) {
    if (!std::isfinite(value)) std::abort();
  }
  if (!moments.fourth().empty() && moments.fourth().size() != moments.parts().size()) std::abort();
  require_sound(moments.support(), moments.rows(), dim);
}

void load(std::string_view text) {
  fuzz::read_or_refuse(text, [](std::string_view bytes) { require_sound(moments_from_bytes(bytes, "input")); });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::load_both_ways(data, size, load);
}
