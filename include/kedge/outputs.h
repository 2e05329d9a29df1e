// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>

namespace kedge {

/// What may be where a result goes. These are asked before the work, and again by what writes the result.

/// Throws Error(Code::bad_argument) if both are the same file, whatever links lead there, since the result would
/// destroy its input; `input` may name a tensor or a column of a file, or be empty. `in_place` says whether the user
/// asked for just that; it is empty where nobody can want it.
void require_other_file(const std::string& output, const std::string& input,
                        std::optional<bool> in_place = std::nullopt);
/// Throws Error(Code::bad_argument) if two of them are the same file; empty ones are not given.
void require_different(std::span<const std::string> outputs);

enum class ResultKind { bundle, moments, safetensors_map, onnx_map };
/// Throws Error(Code::bad_argument) if there is a file that holds something else than an earlier result of this kind.
/// An empty file holds nothing, and devices and pipes are not replaced.
void require_replaceable(const std::string& path, ResultKind kind);

}  // namespace kedge
