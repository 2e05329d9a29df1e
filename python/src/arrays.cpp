// SPDX-License-Identifier: Apache-2.0
#include "arrays.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

namespace kedge::python {
namespace {

/// Large results are written once and at once: with huge pages the system hands them out hundreds of times faster.
float* allocate(std::size_t values) {
  constexpr std::size_t kHugePage = std::size_t{1} << 21;
  const std::size_t bytes = checked_mul(std::max<std::size_t>(1, values), sizeof(float));
  const std::size_t alignment = bytes >= 2 * kHugePage ? kHugePage : std::size_t{64};
  const std::size_t whole = checked_mul(bytes / alignment + 1, alignment);
  void* memory = std::aligned_alloc(alignment, whole);
  if (memory == nullptr) throw std::bad_alloc();
  if (alignment == kHugePage) static_cast<void>(::madvise(memory, whole, MADV_HUGEPAGE));  // a wish, no more
  return static_cast<float*>(memory);
}

}  // namespace

FloatMatrix make_matrix(std::size_t rows, std::size_t cols) {
  float* values = allocate(checked_mul(rows, cols));
  const nb::capsule owner(values, [](void* held) noexcept { std::free(held); });
  return {values, {rows, cols}, owner};
}

nb::object make_integers(const std::vector<std::int64_t>& values) {
  auto* copy = new std::int64_t[std::max<std::size_t>(1, values.size())];
  std::ranges::copy(values, copy);
  const nb::capsule owner(copy, [](void* held) noexcept { delete[] static_cast<std::int64_t*>(held); });
  return nb::cast(nb::ndarray<nb::numpy, std::int64_t, nb::ndim<1>>(copy, {values.size()}, owner));
}

Matrix to_matrix(const GivenMatrix& given) {
  Matrix matrix(given.shape(0), given.shape(1));
  std::copy_n(given.data(), given.size(), matrix.cells().data());
  return matrix;
}

std::vector<float> to_floats(const GivenFloats& given) {
  return {given.data(), given.data() + given.shape(0)};
}

}  // namespace kedge::python
