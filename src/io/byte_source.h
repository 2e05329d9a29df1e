// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

namespace kedge::io {

/// Bytes that are read in pieces: of a file, or in memory. Safe to read from several threads.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  [[nodiscard]] virtual std::size_t size() const = 0;
  /// What messages call it, e.g. the file's path.
  [[nodiscard]] virtual const std::string& label() const = 0;
  /// Fills `to` with the bytes from `offset` on. Throws Error(Code::bad_file) if there are too few, perhaps by now.
  virtual void read(std::size_t offset, std::span<std::byte> to) const = 0;
};

/// A regular file, as long as it was when it was opened. It is read, not mapped: a file that becomes shorter or a disk
/// that fails is then an error, where a map would kill the process, and large files need no address space.
class InputFile final : public ByteSource {
 public:
  /// Throws Error(Code::bad_file) if it cannot be opened.
  explicit InputFile(std::string path);
  ~InputFile() override;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  [[nodiscard]] std::size_t size() const override { return size_; }
  [[nodiscard]] const std::string& label() const override { return path_; }
  void read(std::size_t offset, std::span<std::byte> to) const override;

 private:
  std::string path_;
  int file_ = -1;
  std::size_t size_ = 0;
};

/// A file's bytes in memory, which must outlive it.
class MemoryBytes final : public ByteSource {
 public:
  MemoryBytes(std::span<const std::byte> bytes, std::string label) : bytes_(bytes), label_(std::move(label)) {}
  [[nodiscard]] std::size_t size() const override { return bytes_.size(); }
  [[nodiscard]] const std::string& label() const override { return label_; }
  void read(std::size_t offset, std::span<std::byte> to) const override;

 private:
  std::span<const std::byte> bytes_;
  std::string label_;
};

/// A number of as many bytes as these, little endian, and the first `count` bytes of one.
[[nodiscard]] inline std::uint64_t from_little_endian(std::span<const std::byte> bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) value |= std::to_integer<std::uint64_t>(bytes[i]) << (8 * i);
  return value;
}
[[nodiscard]] inline std::string to_little_endian(std::uint64_t value, std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return bytes;
}

}  // namespace kedge::io
