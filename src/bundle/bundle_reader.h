// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/byte_source.h"

#include <kedge/bundle.h>

#include <string_view>

namespace kedge {

/// The newest format that is read, which save_bundle writes for bundles with kernels; for others it writes the first,
/// which any kedge reads.
inline constexpr unsigned kBundleFormat = 2, kFirstBundleFormat = 1;

/// Trusts nothing: throws Error(Code::bad_file) for bytes that are no bundle, or one whose parts do not fit together.
[[nodiscard]] Bundle read_bundle(const io::ByteSource& file);
/// One map of it, as distrustfully; what does not belong to it is not read. Throws UnknownSpace.
[[nodiscard]] RelativeMap read_map(const io::ByteSource& file, std::string_view space);

}  // namespace kedge
