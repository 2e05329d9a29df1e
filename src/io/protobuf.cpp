// SPDX-License-Identifier: Apache-2.0
#include "io/protobuf.h"

#include "io/byte_source.h"
#include "io/output_file.h"

#include <bit>

namespace kedge::io {
namespace {

// How a value is laid out, in the low bits of the key before it.
constexpr unsigned kVarint = 0, kLengthThenBytes = 2, kFourBytes = 5;

constexpr std::uint64_t key_of(unsigned field, unsigned layout) {
  return std::uint64_t{field} << 3 | layout;
}

}  // namespace

Message& Message::number(unsigned field, std::uint64_t value) {
  put_varint(key_of(field, kVarint));
  put_varint(value);
  return *this;
}

Message& Message::real(unsigned field, float value) {
  put_varint(key_of(field, kFourBytes));
  put(to_little_endian(std::bit_cast<std::uint32_t>(value), 4));
  return *this;
}

Message& Message::text(unsigned field, std::string_view value) {
  open(field, value.size());
  put(value);
  return *this;
}

Message& Message::borrow(unsigned field, std::span<const std::byte> bytes) {
  open(field, bytes.size());
  put_borrowed(bytes);
  return *this;
}

Message& Message::message(unsigned field, const Message& part) {
  open(field, part.size());
  for (const Piece& piece : part.pieces_) {
    put(piece.own);
    if (!piece.borrowed.empty()) put_borrowed(piece.borrowed);
  }
  return *this;
}

void Message::append_to(OutputFile& file) const {
  for (const Piece& piece : pieces_) {
    file.append(piece.own);
    file.append(piece.borrowed);
  }
}

void Message::put(std::string_view bytes) {
  pieces_.back().own.append(bytes);
  size_ += bytes.size();
}

void Message::put_varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>((value & 0x7f) | 0x80));
  bytes.push_back(static_cast<char>(value));
  put(bytes);
}

void Message::put_borrowed(std::span<const std::byte> bytes) {
  pieces_.back().borrowed = bytes;
  pieces_.emplace_back();
  size_ += bytes.size();
}

void Message::open(unsigned field, std::size_t bytes) {
  put_varint(key_of(field, kLengthThenBytes));
  put_varint(bytes);
}

}  // namespace kedge::io
