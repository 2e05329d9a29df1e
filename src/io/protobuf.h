// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace kedge::io {

class OutputFile;

/// A protocol buffers message, as it lies in a file: fields in the order they are added.
class Message {
 public:
  Message& number(unsigned field, std::uint64_t value);
  Message& real(unsigned field, float value);
  Message& text(unsigned field, std::string_view value);
  /// Bytes that are not copied; they must outlive every message they become part of.
  Message& borrow(unsigned field, std::span<const std::byte> bytes);
  Message& message(unsigned field, const Message& part);

  [[nodiscard]] std::size_t size() const { return size_; }
  void append_to(OutputFile& file) const;

 private:
  void put(std::string_view bytes);
  void put_varint(std::uint64_t value);
  void put_borrowed(std::span<const std::byte> bytes);
  void open(unsigned field, std::size_t bytes);

  struct Piece {
    std::string own;
    std::span<const std::byte> borrowed;  ///< follows its own bytes
  };
  std::vector<Piece> pieces_{1};  ///< the last has borrowed nothing yet
  std::size_t size_ = 0;
};

}  // namespace kedge::io
