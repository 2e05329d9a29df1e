// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

// What may be where a result goes. The command asks before the work, and what writes the result asks again.
namespace kedge {

/// Throws Error(Code::bad_argument) if both are the same file, whatever links lead there, since the result would
/// destroy its input; `input` may name a tensor or a column of a file, or be empty. `in_place` says whether the user
/// asked for just that; it is empty if nobody can want it.
void require_other_file(const std::string& output, const std::string& input,
                        std::optional<bool> in_place = std::nullopt);
/// Throws Error(Code::bad_argument) if two of them are the same file; empty ones are not given.
void require_different(std::span<const std::string> outputs);

enum class ResultKind { bundle, moments, safetensors_map, onnx_map };
/// Throws Error(Code::bad_argument) if there is a file that holds something else than an earlier result of this kind.
/// An empty file holds nothing, and devices and pipes are not replaced.
void require_replaceable(const std::string& path, ResultKind kind);

namespace io {

/// Whether a safetensors file that kedge wrote says that it is of this format.
[[nodiscard]] bool says(const std::string& path, std::string_view format);
/// Whether a file is there whose content a result would destroy.
[[nodiscard]] bool holds_something(const std::string& path);
/// Throws the error of a file that is not `what`, such as "a bundle of kedge".
[[noreturn]] void refuse_to_replace(const std::string& path, std::string_view what);

}  // namespace io
}  // namespace kedge
