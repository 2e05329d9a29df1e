// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "io/array.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>

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
        refuse("an unknown or repeated entry '{}'", key);
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
  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> what, Arguments&&... arguments) const {
    refuse_file("{}: its npy header has {}; write it again with numpy.save", label_,
                fmt::format(what, std::forward<Arguments>(arguments)...));
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
    if (!take(c)) refuse("no '{}' where one belongs", c);
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
  const std::string_view type = descr.empty() ? descr : descr.substr(1);
  if (!type.empty() && "USO"sv.find(type.front()) != std::string_view::npos) {
    refuse_file(
        "{}: it holds {} (numpy type '{}'), expected numbers; if these are labels, number them with "
        "np.unique(labels, return_inverse=True)[1]",
        label, type.front() == 'O' ? "Python objects" : "text", descr);
  }
  array.boolean = type == "b1";
  const auto* found = std::ranges::find(kTypes, array.boolean ? "u1" : type, &TypeInfo::npy);
  const bool known = !type.empty() && found != std::end(kTypes);
  const char order = descr.empty() ? '?' : descr.front();
  if (!known || ("<>="sv.find(order) == std::string_view::npos && found->size != 1)) {
    refuse_file(
        "{}: its values have numpy type '{}', expected float16, float32, float64 or integers; convert it with "
        "array.astype('float32')",
        label, descr);
  }
  array.dtype = found->dtype;
  constexpr char kNative = std::endian::native == std::endian::little ? '<' : '>';
  array.swapped = order != '=' && order != kNative && size_of(array.dtype) != 1;
}

/// The dictionary in the header, and where the values begin.
std::pair<std::string, std::size_t> read_dictionary(const ByteSource& file) {
  const std::string& label = file.label();
  std::array<std::byte, 12> prefix{};
  file.read(0, std::span(prefix).first(std::min(prefix.size(), file.size())));
  if (!std::string_view(reinterpret_cast<const char*>(prefix.data()), prefix.size()).starts_with(kMagic)) {
    refuse_file("{}: it does not start like an npy file; was it written by numpy.save?", label);
  }
  if (file.size() < prefix.size()) refuse_file("{}: it ends within its npy header; copy it again", label);
  const auto version = std::to_integer<unsigned>(prefix[6]);
  if (version < 1 || version > 3) refuse_file("{}: npy version {} is unknown, expected 1, 2 or 3", label, version);
  const std::size_t start = version == 1 ? 10 : 12;
  const std::size_t length = from_little_endian(std::span(prefix).subspan(8, start - 8));
  if (length > file.size() - start) {
    refuse_file("{}: its npy header claims {} bytes, but the file has only {}; copy it again", label, length,
                file.size());
  }
  if (length > kLongestHeader) {
    refuse_file(
        "{}: its npy header claims {} bytes, but no array of numbers needs more than {}; write it again with "
        "numpy.save",
        label, length, kLongestHeader);
  }
  std::string dictionary(length, '\0');
  file.read(start, std::as_writable_bytes(std::span(dictionary)));
  return {std::move(dictionary), start + length};
}

}  // namespace

ArrayInfo parse_npy(const ByteSource& file) {
  const std::string& label = file.label();
  const auto [dictionary, values] = read_dictionary(file);
  const auto fields = HeaderReader(dictionary, label).read();
  if (!fields.descr || !fields.fortran_order || !fields.shape) {
    refuse_file("{}: its npy header lacks descr, fortran_order or shape; write it again with numpy.save", label);
  }
  ArrayInfo array;
  read_descr(fields.descr.value(), label, array);
  array.fortran_order = fields.fortran_order.value();
  array.shape = fields.shape.value();
  array.offset = values;
  array.bytes = size_of(array.dtype);
  for (const std::size_t size : array.shape) {
    if (!__builtin_mul_overflow(array.bytes, size, &array.bytes)) continue;
    refuse_file("{}: its npy header claims an impossible shape", label);
  }
  const std::size_t present = file.size() - array.offset;
  if (array.bytes != present) {
    refuse_file("{}: its npy header announces {} bytes of values, but {} follow; the file was {}", label, array.bytes,
                present, present < array.bytes ? "cut short" : "written to twice or damaged");
  }
  return array;
}

std::string npy_header(std::span<const std::size_t> shape, std::size_t alignment, DType dtype) {
  // A tuple of one needs its comma in Python, and a comma after the last of several does no harm.
  std::string dictionary = fmt::format("{{'descr': '<{}', 'fortran_order': False, 'shape': ({},), }}",
                                       kTypes[static_cast<std::size_t>(dtype)].npy, fmt::join(shape, ", "));
  constexpr std::size_t kPrefix = 10;
  const std::size_t unpadded = kPrefix + dictionary.size() + 1;
  dictionary.append((alignment - unpadded % alignment) % alignment, ' ').push_back('\n');
  return fmt::format("{}\x01{}{}{}", kMagic, '\0', to_little_endian(dictionary.size(), 2), dictionary);
}

}  // namespace kedge::io
