// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/bf16_kernel.h"

#include <array>

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace kedge::cpu {
namespace {

using Kernels = std::array<const Bf16Kernel*, 3>;

#if defined(__aarch64__)

Kernels find() {
  constexpr unsigned long kBf16 = 1UL << 14;  // HWCAP2_BF16, which older headers do not know
  return {(getauxval(AT_HWCAP2) & kBf16) != 0 ? &kBfmmla : nullptr};
}

#elif defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers features(unsigned part) {
  Registers found;
  __get_cpuid_count(7, part, &found.a, &found.b, &found.c, &found.d);
  return found;
}

/// Tiles are large, so Linux keeps them only for processes that have asked.
bool may_use_tiles() {
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
}

Kernels find() {
  constexpr unsigned kAvx512Bit = 1U << 5, kAmxBits = 1U << 22 | 1U << 24;
  Kernels found{};
  std::size_t count = 0;
  if ((features(0).d & kAmxBits) == kAmxBits && may_use_tiles()) found[count++] = &kAmxBf16;
  if (__builtin_cpu_supports("avx512f") != 0 && (features(1).a & kAvx512Bit) != 0) found[count++] = &kAvx512Bf16;
  return found;
}

#else

Kernels find() {
  return {};
}

#endif

}  // namespace

const Bf16Kernel* const* bf16_kernels() {
  static const Kernels found = find();
  return found.data();
}

}  // namespace kedge::cpu
