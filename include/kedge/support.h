// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace kedge {

/// How the support rows, which anchors are made of, are selected.
enum class SupportSelect {
  random,    ///< drawn, each row as likely as any other
  fps,       ///< farthest-point: each new row is the one farthest from those before
  kmeans,    ///< of each cluster of rows the one nearest its mean
  leverage,  ///< drawn, each row as likely as its squared length says
};

[[nodiscard]] std::string_view to_string(SupportSelect select);
/// Throws Error(Code::bad_argument) that lists the names.
[[nodiscard]] SupportSelect parse_support_select(std::string_view name);
[[nodiscard]] std::vector<std::string_view> support_select_names();

/// Throws Error(Code::bad_argument) unless there are 1 to `rows` support rows.
void require_support(std::size_t support, std::size_t rows);

/// The numbers of `count` different rows, ascending. Same seed, same rows; random looks at no value.
/// Throws Error(Code::bad_argument) if there are fewer rows; Error(Code::failed) for k-means in a build without FAISS.
[[nodiscard]] std::vector<std::size_t> select_rows(SupportSelect select, MatrixView<const float> rows,
                                                   std::size_t count, std::uint64_t seed);

/// The rows that anchors are made of, in every space of a fit.
struct SupportRows {
  std::vector<std::int64_t> ids;  ///< their numbers among all rows; any order, each once
  std::vector<Matrix64> rows;     ///< for each space support x dim, in the order of the ids
};

}  // namespace kedge
