// SPDX-License-Identifier: Apache-2.0
#include "io/safetensors.h"

#include "base/json.h"
#include "io/output_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace kedge::io {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kPrefix = 8;                               // the header's length, little endian
constexpr std::size_t kLongestHeader = 100'000'000;              // the limit of the format's own library
constexpr JsonLimits kHeader{.deepest = 3, .longest_list = 64};  // file > tensor > shape; dimensions

struct Type {
  std::string_view name;
  std::size_t size;
  DType dtype;
};
constexpr Type kTypes[] = {{"F16", 2, DType::f16},       {"BF16", 2, DType::bf16},     {"F32", 4, DType::f32},
                           {"F64", 8, DType::f64},       {"I32", 4, DType::i32},       {"I64", 8, DType::i64},
                           {"BOOL", 1, DType::u8},       {"U8", 1, DType::u8},         {"I8", 1, DType::i8},
                           {"F8_E5M2", 1, DType::other}, {"F8_E4M3", 1, DType::other}, {"I16", 2, DType::i16},
                           {"U16", 2, DType::u16},       {"U32", 4, DType::u32},       {"U64", 8, DType::u64}};

class HeaderReader {
 public:
  HeaderReader(std::size_t data_offset, std::size_t data_bytes, const std::string& label)
      : data_offset_(data_offset), data_bytes_(data_bytes), label_(label) {}

  SafetensorsInfo read(std::string_view text) {
    const Json header = parse(text);
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
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Code::bad_file, fmt::format("{}: its safetensors header {}; write the file again", label_, what));
  }

  Json parse(std::string_view text) const {
    const std::string problem = json_problem(text, kHeader);
    if (!problem.empty()) refuse(problem);
    return Json::parse(text);
  }

  void read_metadata(const Json& entry, SafetensorsInfo& info) const {
    if (!entry.is_object()) refuse("has metadata that is not a dictionary");
    for (const auto& [key, value] : entry.items()) {
      if (!value.is_string()) refuse(fmt::format("has metadata '{}' that is not text", key));
      info.metadata.emplace(key, value.get<std::string>());
    }
  }

  std::size_t size(const Json& value, const std::string& name) const {
    if (!value.is_number_unsigned())
      refuse(fmt::format("gives '{}' a size or offset that is not a whole number", name));
    return value.get<std::size_t>();
  }

  ArrayInfo read_tensor(const std::string& name, const Json& entry) const {
    const bool complete = entry.is_object() && entry.contains("dtype") && entry["dtype"].is_string() &&
                          entry.contains("shape") && entry["shape"].is_array() && entry.contains("data_offsets") &&
                          entry["data_offsets"].is_array() && entry["data_offsets"].size() == 2;
    if (!complete) refuse(fmt::format("describes '{}' without a proper dtype, shape and data_offsets", name));
    const auto dtype = entry["dtype"].get<std::string>();
    const auto* type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return t.name == dtype; });
    if (type == std::end(kTypes)) refuse(fmt::format("gives '{}' the unknown type '{}'", name, dtype));

    ArrayInfo array;
    array.boolean = type->name == "BOOL";
    array.dtype = type->dtype;
    array.swapped = std::endian::native != std::endian::little;
    std::size_t bytes = type->size;
    for (const Json& length : entry["shape"]) {
      array.shape.push_back(size(length, name));
      if (__builtin_mul_overflow(bytes, array.shape.back(), &bytes)) {
        refuse(fmt::format("gives '{}' an impossible shape", name));
      }
    }
    const std::size_t begin = size(entry["data_offsets"][0], name);
    const std::size_t end = size(entry["data_offsets"][1], name);
    if (begin > end || end > data_bytes_) {
      refuse(fmt::format("places '{}' at bytes {} to {}, but only {} follow it", name, begin, end, data_bytes_));
    }
    if (end - begin != bytes) {
      refuse(fmt::format("gives '{}' {} bytes, but [{}] of {} takes {}", name, end - begin,
                         fmt::join(array.shape, " x "), dtype, bytes));
    }
    array.offset = data_offset_ + begin;
    array.bytes = bytes;
    return array;
  }

  /// The format allows neither overlap nor holes, so that every byte of a file has one meaning.
  void check_layout(const SafetensorsInfo& info) const {
    std::vector<std::pair<std::size_t, std::size_t>> places;
    for (const auto& [name, array] : info.tensors) places.emplace_back(array.offset, array.offset + array.bytes);
    std::sort(places.begin(), places.end());
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

std::string little_endian(std::uint64_t value) {
  std::string bytes;
  for (std::size_t i = 0; i < kPrefix; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return bytes;
}

/// All that comes before the values.
std::string make_header(std::span<const TensorBytes> tensors, const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json header = {{"__metadata__", metadata}};
  std::size_t offset = 0;
  for (const TensorBytes& tensor : tensors) {
    const auto* type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const Type& t) { return t.dtype == tensor.dtype; });
    header[tensor.name] = {
        {"dtype", type->name}, {"shape", tensor.shape}, {"data_offsets", {offset, offset + tensor.bytes.size()}}};
    offset += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // readers that map the file want aligned values
  return little_endian(text.size()) + text;
}

/// Of files that people have beside safetensors; none of them is one, as their first bytes claim a header of gigabytes.
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
  // ONNX has no magic: its model begins with a small version (field 1) and the name of its producer (field 2).
  constexpr char kVersionField = 0x08, kMostVersion = 0x20, kProducerField = 0x12;
  const bool onnx = bytes[0] == kVersionField && bytes[1] > 0 && bytes[1] < kMostVersion && bytes[2] == kProducerField;
  return onnx ? "an ONNX model" : nullptr;
}

}  // namespace

const ArrayInfo& SafetensorsInfo::tensor(const std::string& name, const std::string& label) const {
  const auto found = tensors.find(name);
  if (found == tensors.end()) {
    std::vector<std::string> names;
    for (const auto& entry : tensors) names.push_back(entry.first);
    throw Error(Code::bad_file,
                fmt::format("{}: it has no tensor '{}'; it has: {}", label, name, fmt::join(names, ", ")));
  }
  return found->second;
}

SafetensorsInfo parse_safetensors(const ByteSource& file, const std::string& what) {
  const auto refuse = [&](const std::string& problem) {
    throw Error(Code::bad_file, fmt::format("{}: {}", file.label(), problem));
  };
  if (file.size() < kPrefix) refuse("it is too short for a safetensors file; copy it again");
  std::array<std::byte, kPrefix> prefix{};
  file.read(0, prefix);
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kPrefix; ++i) length |= std::to_integer<std::uint64_t>(prefix[i]) << (8 * i);
  if (length > file.size() - kPrefix) {
    if (const char* kind = kind_of(prefix)) refuse(fmt::format("this is {}, not {}", kind, what));
    refuse(fmt::format("its header claims {} bytes, but the file has {}; it was cut short or is not safetensors",
                       length, file.size()));
  }
  if (length > kLongestHeader) {
    refuse(fmt::format("its header claims {} bytes, but the format allows at most {}; it is not safetensors", length,
                       kLongestHeader));
  }
  std::string header(static_cast<std::size_t>(length), '\0');
  file.read(kPrefix, std::as_writable_bytes(std::span(header)));
  const std::size_t values = kPrefix + header.size();
  return HeaderReader(values, file.size() - values, file.label()).read(header);
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
  const std::string header = make_header(tensors, metadata);
  OutputFile file(path);
  file.append(header);
  for (const TensorBytes& tensor : tensors) file.append(tensor.bytes);
  file.finish(Durability::flushed);
}

}  // namespace kedge::io
