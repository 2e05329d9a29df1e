// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kedge/relative_map.h>
#include <kedge/translate.h>

#include <string>
#include <vector>

namespace kedge {

/// How a map is written for use outside kedge.
struct ExportOptions {
  bool normalize = false;  ///< results of length 1; a row of zeros stays one
  bool in_place = false;   ///< otherwise only an earlier export of the same kind is replaced
};

/// Writes `weight` and `bias` as torch.nn.Linear names them. Normalising, which they leave out, is in the metadata.
void export_safetensors(const RelativeMap& map, const std::string& path, const ExportOptions& options = {});
void export_safetensors(const Translator& translator, const std::string& path, const ExportOptions& options = {});

/// Writes PREFIX.weight.npy and PREFIX.bias.npy for a path PREFIX.npy, and PREFIX.mean.npy for a map; returns the
/// paths. Throws Error(Code::bad_argument) where normalising is asked for, which none of these could say.
std::vector<std::string> export_npy(const RelativeMap& map, const std::string& path, const ExportOptions& options = {});
std::vector<std::string> export_npy(const Translator& translator, const std::string& path,
                                    const ExportOptions& options = {});
/// The paths it will write to.
[[nodiscard]] std::vector<std::string> npy_paths(const RelativeMap& map, const std::string& path);
[[nodiscard]] std::vector<std::string> npy_paths(const Translator& translator, const std::string& path);

/// Writes an ONNX model from `x` (rows x input_dim) to `rr`, or to `y` for a translator (rows x output_dim), all
/// float32. Throws Error(Code::bad_argument) where the file would pass the 2 GB that ONNX allows.
void export_onnx(const RelativeMap& map, const std::string& path, const ExportOptions& options = {});
void export_onnx(const Translator& translator, const std::string& path, const ExportOptions& options = {});

}  // namespace kedge
