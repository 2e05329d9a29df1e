// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/device.h>
#include <kedge/error.h>

#include <fmt/format.h>

#include <optional>
#include <ostream>
#include <string>

namespace kedge::test {

/// Why nothing can be tested there, if so.
inline std::optional<std::string> missing(Device device) {
  try {
    require_device(device);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

/// A backend, and how far from the plain loops its products may be.
struct Place {
  Device device;
  Precision precision;
  double tolerance;
};
constexpr Place kCpu{Device::cpu, Precision::fp32, 1e-5};
constexpr Place kCudaFp32{Device::cuda, Precision::fp32, 1e-5};
constexpr Place kCudaTf32{Device::cuda, Precision::tf32, 2e-3};
constexpr Place kCudaBf16{Device::cuda, Precision::bf16, 2e-2};

inline std::string name_of(const Place& place) {
  const bool plain = place.device == Device::cpu && place.precision == Precision::fp32;
  return plain ? "cpu" : fmt::format("{}_{}", to_string(place.device), to_string(place.precision));
}

inline std::optional<std::string> missing(const Place& place) {
  if (const auto why = missing(place.device)) return why;
  try {
    require_precision(place.device, place.precision);
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

/// CTest shows it beside the test's name.
inline void PrintTo(const Place& place, std::ostream* out) {
  *out << name_of(place);
}

}  // namespace kedge::test
