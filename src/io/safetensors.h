// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/array.h"

#include <kedge/matrix.h>

#include <functional>
#include <map>

namespace kedge::io {

/// A path may name one tensor of a file, as in weights.safetensors#layer. Both names may themselves hold a '#'.
[[nodiscard]] std::pair<std::string, std::string> split_tensor(const std::string& path);

/// What the header of a `.safetensors` file says; every array is known to lie inside the file and to overlap no other.
struct SafetensorsInfo {
  std::map<std::string, ArrayInfo> tensors;
  std::map<std::string, std::string> metadata;

  /// The names of all tensors, with commas between them.
  [[nodiscard]] std::string names() const;
  /// Throws Error(Code::bad_file) that lists the tensors there are.
  [[nodiscard]] const ArrayInfo& tensor(const std::string& name, const std::string& label) const;
};

/// Trusts nothing; throws Error(Code::bad_file).
[[nodiscard]] SafetensorsInfo parse_safetensors(const ByteSource& file, const std::string& what = "safetensors");

/// A tensor to be written; the bytes are the caller's.
struct TensorBytes {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::size_t> shape;
  std::span<const std::byte> bytes;
};
[[nodiscard]] inline TensorBytes tensor(std::string name, const Matrix& matrix) {
  return {std::move(name), DType::f32, {matrix.rows(), matrix.cols()}, std::as_bytes(matrix.cells())};
}

/// The bytes of the whole file.
[[nodiscard]] std::string safetensors_bytes(std::span<const TensorBytes> tensors,
                                            const std::map<std::string, std::string>& metadata);
/// Writes them to memory that `place` gives when it is asked, once, for so many bytes. Returns where tensors begin.
char* safetensors_bytes(std::span<const TensorBytes> tensors, const std::map<std::string, std::string>& metadata,
                        const std::function<char*(std::size_t)>& place);
/// Writes the file beside its final place, flushes it to the disk, then renames it: never half a file.
void save_safetensors(const std::string& path, std::span<const TensorBytes> tensors,
                      const std::map<std::string, std::string>& metadata);

}  // namespace kedge::io
