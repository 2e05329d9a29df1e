// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "compute/row_worker.h"

#include <kedge/matrix.h>
#include <kedge/progress.h>
#include <kedge/relative_map.h>
#include <kedge/space.h>

#include <string>
#include <string_view>

namespace kedge {

/// A function of one row, and the workers that apply it to blocks of them.
struct RowFunction {
  std::string space;  ///< whose embeddings it takes
  std::string_view doing;
  std::size_t input_dim = 0, output_dim = 0;
  MakeRowWorker make_worker;  ///< on the device of the stream's options
};

/// Streams a space through it into an `.npy` file, on all threads; memory does not grow with rows.
void stream(const RowFunction& function, const Space& input, const std::string& output_path,
            const StreamOptions& options, const Progress& progress);

}  // namespace kedge
