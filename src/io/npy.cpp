// SPDX-License-Identifier: Apache-2.0
#include "io/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <kedge/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace kedge::io {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kMagic = "\x93NUMPY"sv;
constexpr std::size_t kMostDimensions = 32;  // numpy's own limit
constexpr std::size_t kLongestHeader = 1 << 20;

/// The Python dictionary of an .npy header: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& label) : rest_(text), label_(label) {}

  struct Fields {
    std::optional<std::string_view> descr;
    std::optional<bool> fortran_order;
    std::optional<std::vector<std::size_t>> shape;
  };

  Fields read() {
    Fields fields;
    expect('{');
    while (!take('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr" && !fields.descr) {
        fields.descr = quoted();
      } else if (key == "fortran_order" && !fields.fortran_order) {
        fields.fortran_order = boolean();
      } else if (key == "shape" && !fields.shape) {
        fields.shape = tuple();
      } else {
        refuse(fmt::format("an unknown or repeated entry '{}'", key));
      }
      if (!take(',')) {
        expect('}');
        break;
      }
    }
    skip_space();
    if (!rest_.empty()) refuse("text after its end");
    return fields;
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(Code::bad_file, fmt::format("{}: its npy header has {}; write it again with numpy.save", label_, what));
  }
  void skip_space() {
    while (!rest_.empty() && " \t\n\r"sv.find(rest_.front()) != std::string_view::npos) rest_.remove_prefix(1);
  }
  bool take(char c) {
    skip_space();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) refuse(fmt::format("no '{}' where one belongs", c));
  }
  std::string_view quoted() {
    skip_space();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) {
      refuse("no plain text where it belongs (arrays of records are not embeddings)");
    }
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) refuse("an unfinished text");
    const std::string_view text = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return text;
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True"sv, true}, std::pair{"False"sv, false}}) {
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(word.size());
        return value;
      }
    }
    refuse("no True or False for fortran_order");
  }
  std::vector<std::size_t> tuple() {
    std::vector<std::size_t> sizes;
    expect('(');
    while (!take(')')) {
      if (sizes.size() == kMostDimensions) refuse("more dimensions than numpy allows");
      sizes.push_back(number());
      if (!take(',')) {
        expect(')');
        break;
      }
    }
    return sizes;
  }
  std::size_t number() {
    skip_space();
    std::size_t value = 0;
    const auto [end, problem] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (problem != std::errc{}) refuse("a size that is negative, too large, or not a number");
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    if (rest_.starts_with('L')) rest_.remove_prefix(1);  // Python 2 wrote long integers so
    return value;
  }

  std::string_view rest_;
  const std::string& label_;
};

void read_descr(std::string_view descr, const std::string& label, ArrayInfo& array) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {{"f2", DType::f16}, {"f4", DType::f32}, {"f8", DType::f64},
                                                           {"u1", DType::u8},  {"b1", DType::u8},  {"i1", DType::i8},
                                                           {"u2", DType::u16}, {"i2", DType::i16}, {"u4", DType::u32},
                                                           {"i4", DType::i32}, {"u8", DType::u64}, {"i8", DType::i64}};
  const std::string_view type = descr.empty() ? descr : descr.substr(1);
  array.dtype = DType::other;
  for (const auto& [name, dtype] : kTypes) {
    if (name == type) array.dtype = dtype;
  }
  array.boolean = type == "b1";
  if (!type.empty() && std::string_view("USO").find(type.front()) != std::string_view::npos) {
    throw Error(
        Code::bad_file,
        fmt::format("{}: it holds {} (numpy type '{}'), expected numbers; if these are labels, number them with "
                    "np.unique(labels, return_inverse=True)[1]",
                    label, type.front() == 'O' ? "Python objects" : "text", descr));
  }
  const char order = descr.empty() ? '?' : descr.front();
  if (array.dtype == DType::other || (order != '<' && order != '>' && order != '=' && size_of(array.dtype) != 1)) {
    throw Error(Code::bad_file, fmt::format("{}: its values have numpy type '{}', expected float16, float32, float64 "
                                            "or integers; convert it with array.astype('float32')",
                                            label, descr));
  }
  constexpr char kNative = std::endian::native == std::endian::little ? '<' : '>';
  array.swapped = order != '=' && order != kNative && size_of(array.dtype) != 1;
}

/// The dictionary in the header, and where the values begin.
std::pair<std::string, std::size_t> read_dictionary(const ByteSource& file) {
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::bad_file, fmt::format("{}: {}", file.label(), what));
  };
  std::array<std::byte, 12> prefix{};
  file.read(0, std::span(prefix).first(std::min(prefix.size(), file.size())));
  if (!std::string_view(reinterpret_cast<const char*>(prefix.data()), prefix.size()).starts_with(kMagic)) {
    refuse("it does not start like an npy file; was it written by numpy.save?");
  }
  if (file.size() < prefix.size()) refuse("it ends within its npy header; copy it again");
  const auto byte_at = [&](std::size_t i) { return std::to_integer<std::size_t>(prefix[i]); };
  const std::size_t version = byte_at(6);
  if (version < 1 || version > 3) refuse(fmt::format("npy version {} is unknown, expected 1, 2 or 3", version));
  const std::size_t start = version == 1 ? 10 : 12;
  std::size_t length = byte_at(8) | byte_at(9) << 8;
  if (version > 1) length |= byte_at(10) << 16 | byte_at(11) << 24;
  if (length > file.size() - start) {
    refuse(fmt::format("its npy header claims {} bytes, but the file has only {}; copy it again", length, file.size()));
  }
  if (length > kLongestHeader) {
    refuse(
        fmt::format("its npy header claims {} bytes, but no array of numbers needs more than {}; write it again "
                    "with numpy.save",
                    length, kLongestHeader));
  }
  std::string dictionary(length, '\0');
  file.read(start, std::as_writable_bytes(std::span(dictionary)));
  return {std::move(dictionary), start + length};
}

}  // namespace

ArrayInfo parse_npy(const ByteSource& file) {
  const std::string& label = file.label();
  const auto refuse = [&](const std::string& what) { throw Error(Code::bad_file, fmt::format("{}: {}", label, what)); };
  const auto [dictionary, values] = read_dictionary(file);
  const auto fields = HeaderReader(dictionary, label).read();
  if (!fields.descr || !fields.fortran_order || !fields.shape) {
    refuse("its npy header lacks descr, fortran_order or shape; write it again with numpy.save");
  }
  ArrayInfo array;
  read_descr(fields.descr.value(), label, array);
  array.fortran_order = fields.fortran_order.value();
  array.shape = fields.shape.value();
  array.offset = values;
  array.bytes = size_of(array.dtype);
  for (const std::size_t size : array.shape) {
    if (__builtin_mul_overflow(array.bytes, size, &array.bytes)) refuse("its npy header claims an impossible shape");
  }
  const std::size_t present = file.size() - array.offset;
  if (array.bytes != present) {
    refuse(fmt::format("its npy header announces {} bytes of values, but {} follow; the file was {}", array.bytes,
                       present, present < array.bytes ? "cut short" : "written to twice or damaged"));
  }
  return array;
}

std::string npy_header(std::span<const std::size_t> shape, std::size_t alignment) {
  // A tuple of one needs its comma in Python, and a comma after the last of several does no harm.
  std::string dictionary =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({},), }}", fmt::join(shape, ", "));
  constexpr std::size_t kPrefix = 10;
  const std::size_t unpadded = kPrefix + dictionary.size() + 1;
  dictionary.append((alignment - unpadded % alignment) % alignment, ' ').push_back('\n');
  std::string header(kMagic);
  header += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xff), static_cast<char>(dictionary.size() >> 8)};
  return header + dictionary;
}

}  // namespace kedge::io
