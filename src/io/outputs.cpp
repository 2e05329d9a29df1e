// SPDX-License-Identifier: Apache-2.0
#include "io/outputs.h"

#include "base/wording.h"
#include "io/safetensors.h"

#include <array>
#include <filesystem>
#include <system_error>

namespace kedge {
namespace {

namespace fs = std::filesystem;

/// Also of files that are not there yet. Devices take any number of results.
bool is_same_file(const std::string& a, const std::string& b) {
  std::error_code unknown;
  if (a.empty() || b.empty() || fs::is_character_file(a, unknown)) return false;
  const auto place = [&](const std::string& path) {
    return fs::weakly_canonical(fs::absolute(path, unknown), unknown);
  };
  return fs::equivalent(a, b, unknown) || place(a) == place(b);
}

/// The file of x.safetensors#tensor or x.parquet#column.
std::string file_part(const std::string& input) {
  for (const std::string_view ending : {".safetensors", ".parquet"}) {
    const std::size_t mark = input.find(fmt::format("{}#", ending));
    if (mark != std::string::npos) return input.substr(0, mark + ending.size());
  }
  return input;
}

/// The fields of an ONNX model that come first: the IR version in one byte, then who made it.
bool is_own_model(const std::string& path) {
  constexpr std::string_view kProducer = "\x12\x05kedge";
  try {
    const io::InputFile file(path);
    std::array<char, 2 + kProducer.size()> start{};
    if (file.size() < start.size()) return false;
    file.read(0, std::as_writable_bytes(std::span(start)));
    return start[0] == '\x08' && std::string_view(start.data() + 2, kProducer.size()) == kProducer;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool io::says(const std::string& path, std::string_view format) {
  try {
    const auto metadata = parse_safetensors(InputFile(path)).metadata;
    const auto found = metadata.find("format");
    return found != metadata.end() && found->second.starts_with(format);
  } catch (const Error&) {
    return false;
  }
}

bool io::holds_something(const std::string& path) {
  std::error_code unknown;
  return fs::is_regular_file(path, unknown) && fs::file_size(path, unknown) > 0;
}

void io::refuse_to_replace(const std::string& path, std::string_view what) {
  const std::string or_else = by_vocabulary("give in_place = true", "remove that one first", "give in_place=True");
  refuse("'{}' is there already and is not {}; writing the result there would destroy it, so name another file, or {}",
         path, what, or_else);
}

void require_other_file(const std::string& output, const std::string& input, std::optional<bool> in_place) {
  if (in_place.value_or(false) || (!is_same_file(output, input) && !is_same_file(output, file_part(input)))) return;
  refuse("'{}' is an input; writing the result there would destroy it, so name another file{}", output,
         in_place ? fmt::format(", or give {} to replace it", flag_words("in-place")) : "");
}

void require_different(std::span<const std::string> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = i + 1; j < outputs.size(); ++j) {
      if (!is_same_file(outputs[i], outputs[j])) continue;
      refuse("'{}' is named for two results, and one would overwrite the other; name another file", outputs[j]);
    }
  }
}

void require_replaceable(const std::string& path, ResultKind kind) {
  if (!io::holds_something(path)) return;
  const auto require = [&](bool ours, std::string_view what) {
    if (!ours) io::refuse_to_replace(path, what);
  };
  switch (kind) {
    case ResultKind::bundle: return require(io::says(path, "kedge bundle"), "a bundle of kedge");
    case ResultKind::moments: return require(io::says(path, "kedge moments"), "moments of kedge");
    case ResultKind::safetensors_map:
      return require(io::says(path, "kedge map") || io::says(path, "kedge translator"), "a map that kedge exported");
    case ResultKind::onnx_map: return require(is_own_model(path), "an ONNX model that kedge exported");
  }
}

}  // namespace kedge
