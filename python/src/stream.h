// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "bindings.h"

#include <kedge/progress.h>
#include <kedge/relative_map.h>
#include <kedge/space.h>

#include <functional>
#include <string>

namespace kedge::python {

/// What transform_file is told, of a map and of a translator.
struct StreamCall {
  nb::object input, output, rows;
  std::string device, precision;
  bool normalize = false, in_place = false;
  nb::object progress;
};

using StreamWork =
    std::function<void(const Space& input, const std::string& output, const Progress& progress, const StreamOptions&)>;

/// Streams the rows of a file of `space`. Parquet is left to Python, which calls `self` block by block.
void stream_file(nb::handle self, const std::string& space, const StreamCall& call, const StreamWork& work);

inline constexpr const char* kTransformFileText =
    R"(Stream a file's rows into another; memory use does not grow with the rows.

Parameters
----------
input : path
    Embeddings: .npy, .safetensors#tensor, .fvecs or .parquet#column.
output : path
    Where results go, one row per input row: a float32 .npy, or a .parquet, which keeps the other columns of a Parquet
    input.
rows : slice, (first, end), 'first:end', array of row numbers or mask, optional
    Rows to take; all by default.
device, precision : str
    Where to compute, and how precisely a GPU does.
normalize : bool
    Whether to divide every result by its length; a row of zeros stays one.
in_place : bool
    Whether output may replace the file of input, once it is whole.
progress : bool or callable
    As for fit.
)";

/// Gives a class its method transform_file, which hands what it is told to `work`.
template <class Handle>
void bind_transform_file(nb::class_<Handle>& c, void (*work)(const Handle&, const StreamCall&)) {
  using namespace nb::literals;
  c.def(
      "transform_file",
      [work](const Handle& self, const nb::object& input, const nb::object& output, const nb::object& rows,
             const std::string& device, const std::string& precision, bool normalize, bool in_place,
             const nb::object& progress) {
        work(self, {input, output, rows, device, precision, normalize, in_place, progress});
      },
      "input"_a, "output"_a, nb::kw_only(), "rows"_a = nb::none(), "device"_a = std::string(to_string(Device::cpu)),
      "precision"_a = std::string(to_string(Precision::fp32)), "normalize"_a = false, "in_place"_a = false,
      "progress"_a = false, kTransformFileText);
}

}  // namespace kedge::python
