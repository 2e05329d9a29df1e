// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace kedge::cli {

/// Whether a path names a Parquet file, or a column of one.
[[nodiscard]] bool is_parquet(const std::string& path);

/// Replaces this process by `kedge-parquet` of the Python package, which reads and writes Parquet, with these words. It
/// is looked for as `kedge-report` is. Throws Error(Code::failed) if there is none.
[[noreturn]] void become_parquet(std::vector<std::string> words);

}  // namespace kedge::cli
