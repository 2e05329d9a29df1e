// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "io/array.h"

#include <kedge/error.h>
#include <sanitizer/allocator_interface.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge::fuzz {

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A copy on the heap that ends where the text ends, so that a read past it is seen.
inline std::vector<std::byte> bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

/// The input as a header and values, parted at its first zero byte. Mutations rarely keep lengths consistent, so each
/// target also builds a file with right lengths out of these two.
struct Parts {
  std::string_view header, values;
};
inline Parts parts_of(std::string_view text) {
  const std::size_t end = std::min(text.find('\0'), text.size());
  return {text.substr(0, end), text.substr(std::min(end + 1, text.size()))};
}

inline std::string frame_safetensors(const Parts& parts) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(parts.header.size() >> (8 * i) & 0xff);
  return file.append(parts.header).append(parts.values);
}

/// What the heap holds at most while it lives, beyond what it held before.
class HeapWatch {
 public:
  HeapWatch() {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(
        [](const volatile void*, std::size_t size) {
          most_ = std::max(most_, held_ += static_cast<std::ptrdiff_t>(size));
        },
        [](const volatile void* at) {
          if (at != nullptr) held_ -= static_cast<std::ptrdiff_t>(__sanitizer_get_allocated_size(at));
        });
    if (installed == 0) std::abort();
    held_ = most_ = 0;
  }
  [[nodiscard]] static std::size_t most() { return static_cast<std::size_t>(most_); }

 private:
  static inline std::ptrdiff_t held_ = 0, most_ = 0;
};

/// Two bytes of a list of numbers become a value of 16, in a list that doubles as it grows.
inline constexpr std::size_t kOfJson = 48;

/// Runs `work` on an input of `size` bytes, which may take no more memory than so many times that.
template <class Work>
void within_memory(std::size_t size, Work work, std::size_t times = kOfJson) {
  constexpr std::size_t kAlways = std::size_t{32} << 10;  // messages, streams
  const HeapWatch watch;
  work();
  if (HeapWatch::most() <= times * size + kAlways) return;
  std::fprintf(stderr, "%zu bytes of input took %zu of memory\n", size, HeapWatch::most());
  std::abort();
}

/// Whether a person can read it and a terminal shows it.
inline bool is_sentence(std::string_view text) {
  return !text.empty() && printable(text) == text;
}

/// Runs `work`, which may refuse its file but may do nothing else wrong.
template <class Work>
void refuse_or_read(Work work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() == Code::bad_file && is_sentence(error.what())) return;
    std::fprintf(stderr, "a bad file gave another error: %s\n", error.what());
    std::abort();
  }
}

/// What the product reads out of bytes that it may refuse.
template <class Read>
void read_or_refuse(std::string_view text, Read read) {
  const std::vector<std::byte> bytes = bytes_of(text);
  within_memory(bytes.size(), [&] {
    refuse_or_read([&] { read(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())); });
  });
}

/// Loads an input as it is, and as a safetensors file that is made of its parts.
template <class Load>
int load_both_ways(const std::uint8_t* data, std::size_t size, Load load) {
  const std::string_view text = text_of(data, size);
  load(text);
  load(frame_safetensors(parts_of(text)));
  return 0;
}

/// Reads all values in every way the product reads an array of this type.
inline void read_all_values(const io::ByteSource& file, const io::ArrayInfo& array) {
  if (array.dtype == io::DType::other) return;
  const std::size_t count = array.bytes / io::size_of(array.dtype);
  if (io::is_integer(array.dtype)) {
    std::vector<std::int64_t> integers(count);
    io::read_values(file, array, 0, std::span(integers));
  }
  std::vector<float> floats(count);
  io::read_values(file, array, 0, std::span(floats));
  std::vector<double> doubles(count);
  io::read_values(file, array, 0, std::span(doubles));
}

}  // namespace kedge::fuzz
