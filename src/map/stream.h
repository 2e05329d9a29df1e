// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/matrix.h>
#include <kedge/progress.h>
#include <kedge/space.h>

#include <functional>
#include <string>
#include <string_view>

namespace kedge {

/// A function of one row, applied to blocks of them; safe to call from several threads.
struct RowFunction {
  std::string space;  ///< whose embeddings it takes
  std::string_view doing;
  std::size_t input_dim = 0, output_dim = 0;
  std::function<void(MatrixView<const float>, MatrixView<float>)> apply;
};

/// Streams a space through it into an `.npy` file, on all threads; memory does not grow with rows.
void stream(const RowFunction& function, const Space& input, const std::string& output_path, const Progress& progress);

}  // namespace kedge
