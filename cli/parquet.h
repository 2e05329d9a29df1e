// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace kedge::cli {

/// Whether a path names a Parquet file, or a column of one.
[[nodiscard]] bool is_parquet(const std::string& path);

/// Parquet is read and written by the Python package: this process becomes its program `kedge-parquet`, which is looked
/// for as `kedge-report` is, with these words. Throws Error(Code::failed) if there is none.
[[noreturn]] void become_parquet(std::vector<std::string> words);

}  // namespace kedge::cli
