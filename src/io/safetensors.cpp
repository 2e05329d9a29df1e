// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.h"

#include "base/json.h"
#include "base/wording.h"
#include "io/output_file.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace kedge::io {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPrefix = 8;                               // the header's length, little endian
constexpr std::size_t kLongestHeader = 100'000'000;              // the limit of the format's own library
constexpr JsonLimits kHeader{.deepest = 3, .longest_list = 64};  // file > tensor > shape; dimensions

class HeaderReader {
 public:
  HeaderReader(std::size_t data_offset, std::size_t data_bytes, const std::string& label)
      : data_offset_(data_offset), data_bytes_(data_bytes), label_(label) {}

  SafetensorsInfo read(std::string_view text) {
    const std::string problem = json_problem(text, kHeader);
    if (!problem.empty()) refuse("{}", problem);
    const Json header = Json::parse(text);
    if (!header.is_object()) refuse("is not a dictionary");
    SafetensorsInfo info;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        read_metadata(entry, info);
      } else {
        info.tensors.emplace(name, read_tensor(name, entry));
      }
    }
    check_layout(info);
    return info;
  }

 private:
  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> what, Arguments&&... arguments) const {
    refuse_file("{}: its safetensors header {}; write the file again", label_,
                fmt::format(what, std::forward<Arguments>(arguments)...));
  }

  void read_metadata(const Json& entry, SafetensorsInfo& info) const {
    if (!entry.is_object()) refuse("has metadata that is not a dictionary");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) refuse("has metadata '{}' that is not text", key);
      info.metadata.emplace(key, value.get<std::string>());
    }
  }

  std::size_t size(const Json& value, const std::string& name) const {
    if (!value.is_number_unsigned()) refuse("gives '{}' a size or offset that is not a whole number", name);
    return value.get<std::size_t>();
  }

  ArrayInfo read_tensor(const std::string& name, const Json& entry) const {
    const bool complete = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                          entry.contains("shape") && entry["shape"].is_array() && entry.contains("data_offsets") &&
                          entry["data_offsets"].is_array() && entry["data_offsets"].size() == 2;
    if (!complete) refuse("describes '{}' without a proper dtype, shape and data_offsets", name);
    const auto dtype = entry["dtype"].get<std::string>();
    const bool unread = dtype == "F8_E5M2" || dtype == "F8_E4M3";  // of one byte; the format has them, kedge does not
    ArrayInfo array;
    array.boolean = dtype == "BOOL";
    const auto* type = std::ranges::find(kTypes, array.boolean ? "U8" : dtype, &TypeInfo::safetensors);
    if (type == std::end(kTypes) && !unread) refuse("gives '{}' the unknown type '{}'", name, dtype);
    array.dtype = unread ? DType::other : type->dtype;
    array.swapped = std::endian::native != std::endian::little;
    std::size_t bytes = unread ? 1 : type->size;
    for (const Json& length : entry["shape"]) {
      array.shape.push_back(size(length, name));
      if (__builtin_mul_overflow(bytes, array.shape.back(), &bytes)) {
        refuse("gives '{}' an impossible shape", name);
      }
    }
    const std::size_t begin = size(entry["data_offsets"][0], name);
    const std::size_t end = size(entry["data_offsets"][1], name);
    if (begin > end || end > data_bytes_) {
      refuse("places '{}' at bytes {} to {}, but only {} follow it", name, begin, end, data_bytes_);
    }
    if (end - begin != bytes) {
      refuse("gives '{}' {} bytes, but [{}] of {} takes {}", name, end - begin, fmt::join(array.shape, " x "), dtype,
             bytes);
    }
    array.offset = data_offset_ + begin;
    array.bytes = bytes;
    return array;
  }

  /// The format allows neither overlap nor holes, so that every byte of a file has one meaning.
  void check_layout(const SafetensorsInfo& info) const {
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (const auto& [name, array] : info.tensors) places.emplace_back(array.offset, array.offset + array.bytes);
    std::ranges::sort(places);
    std::size_t at = data_offset_;
    for (const auto& [begin, end] : places) {
      if (begin < at) refuse("lets two tensors overlap");
      if (begin > at) refuse("leaves a hole between two tensors");
      at = end;
    }
    if (at != data_offset_ + data_bytes_) refuse("does not account for all of the file's bytes");
  }

  std::size_t data_offset_, data_bytes_;
  const std::string& label_;
};

/// All that comes before the values.
std::string make_header(std::span<const TensorBytes> tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = {{"__metadata__", metadata}};
  std::size_t offset = 0;
  for (const TensorBytes& tensor : tensors) {
    header[tensor.name] = {{"dtype", std::ranges::find(kTypes, tensor.dtype, &TypeInfo::dtype)->safetensors},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // readers that map the file want aligned values
  return to_little_endian(text.size(), kPrefix) + text;
}

/// What a file is that begins like this, if it is of a kind that people have beside safetensors. None of them passes
/// for safetensors, because their first bytes would claim a header of gigabytes.
const char* kind_of(std::span<const std::byte, kPrefix> first) {
  constexpr std::pair<std::string_view, const char*> kKinds[]{
      {"\x93NUMPY", "an .npy file"},
      {"PAR1", "a Parquet file"},
      {"PK\x03\x04", "a zip archive, as .npz and .pt files are"},
      {"\x89HDF", "an HDF5 file"}};
  const std::string_view bytes(reinterpret_cast<const char*>(first.data()), first.size());
  for (const auto& [magic, kind] : kKinds) {
    if (bytes.starts_with(magic)) return kind;
  }
  const auto printable = [](char c) { return c == '\t' || c == '\n' || c == '\r' || (c >= ' ' && c <= '~'); };
  if (std::ranges::all_of(bytes, printable)) return "a text file";
  // ONNX has no magic number: a model begins with a small version (field 1) and the name of its producer (field 2).
  constexpr char kVersionField = 0x08, kMostVersion = 0x20, kProducerField = 0x12;
  const bool onnx = bytes[0] == kVersionField && bytes[1] > 0 && bytes[1] < kMostVersion && bytes[2] == kProducerField;
  return onnx ? "an ONNX model" : nullptr;
}

}  // namespace

std::pair<std::string, std::string> split_tensor(const std::string& path) {
  constexpr std::string_view kExtension = ".safetensors";
  const std::size_t dot = path.ends_with(kExtension) ? std::string::npos : path.find(std::string(kExtension) + '#');
  if (dot == std::string::npos) return {path, ""};
  return {path.substr(0, dot + kExtension.size()), path.substr(dot + kExtension.size() + 1)};
}

std::string SafetensorsInfo::names() const {
  std::vector<std::string_view> all;
  for (const auto& [name, array] : tensors) all.push_back(name);
  return fmt::format("{}", fmt::join(all, ", "));
}

const ArrayInfo& SafetensorsInfo::tensor(const std::string& name, const std::string& label) const {
  const auto found = tensors.find(name);
  if (found != tensors.end()) return found->second;
  refuse_file("{}: it has no tensor '{}'; it has: {}", label, name, names());
}

SafetensorsInfo parse_safetensors(const ByteSource& file, const std::string& what) {
  const std::string& label = file.label();
  if (file.size() < kPrefix) refuse_file("{}: it is too short for a safetensors file; copy it again", label);
  std::array<std::byte, kPrefix> prefix{};
  file.read(0, prefix);
  const std::uint64_t length = from_little_endian(prefix);
  if (length > file.size() - kPrefix) {
    if (const char* kind = kind_of(prefix)) refuse_file("{}: this is {}, not {}", label, kind, what);
    refuse_file("{}: its header claims {} bytes, but the file has {}; it was cut short or is not safetensors", label,
                length, file.size());
  }
  if (length > kLongestHeader) {
    refuse_file("{}: its header claims {} bytes, but the format allows at most {}; it is not safetensors", label,
                length, kLongestHeader);
  }
  std::string header(static_cast<std::size_t>(length), '\0');
  file.read(kPrefix, std::as_writable_bytes(std::span(header)));
  const std::size_t values = kPrefix + header.size();
  return HeaderReader(values, file.size() - values, label).read(header);
}

char* safetensors_bytes(std::span<const TensorBytes> tensors, const std::map<std::string, std::string>& metadata,
                        const std::function<char*(std::size_t)>& place) {
  const std::string header = make_header(tensors, metadata);
  std::size_t size = header.size();
  for (const TensorBytes& tensor : tensors) size += tensor.bytes.size();
  char* const first = std::ranges::copy(header, place(size)).out;
  char* to = first;
  for (const TensorBytes& tensor : tensors) {
    to = std::copy_n(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size(), to);
  }
  return first;
}

std::string safetensors_bytes(std::span<const TensorBytes> tensors,
                              const std::map<std::string, std::string>& metadata) {
  std::string bytes;
  safetensors_bytes(tensors, metadata, [&](std::size_t size) {
    bytes.resize(size);
    return bytes.data();
  });
  return bytes;
}

void save_safetensors(const std::string& path, std::span<const TensorBytes> tensors,
                      const std::map<std::string, std::string>& metadata) {
  OutputFile file(path);
  file.append(make_header(tensors, metadata));
  for (const TensorBytes& tensor : tensors) file.append(tensor.bytes);
  file.finish(Durability::flushed);
}

}  // namespace kedge::io
