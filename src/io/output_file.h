// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace kedge::io {

enum class Durability {
  renamed,  ///< appears whole or not at all unless the machine stops; for results that can be made again
  flushed,  ///< also survives a power cut; waits for the disk
};

/// A file that appears in its place only when it is finished. Until then it has no name, so that a killed process
/// leaves nothing behind; if the file system has no such files, it has a name beside its place, and is removed if
/// anything goes wrong. Devices and pipes are written directly. Throws Error(Code::failed).
class OutputFile {
 public:
  /// `size` is how many bytes will come, if known: large files bypass the page cache.
  explicit OutputFile(const std::string& path, std::size_t size = 0);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  void append(std::span<const std::byte> bytes);
  void append(std::string_view text) { append(std::as_bytes(std::span(text))); }
  /// Safe from several threads. Only for regular files.
  void write_at(std::size_t offset, std::span<const std::byte> bytes);
  void finish(Durability durability);
  /// False for a device or a pipe, which only takes append().
  [[nodiscard]] bool is_regular() const { return !target_.empty(); }

  /// Writes of whole multiples of this, from and to such addresses, take the fast way.
  static constexpr std::size_t kAlignment = 4096;

 private:
  void reserve(std::size_t size);
  void give_name();
  void discard();
  [[noreturn]] void refuse(const char* doing, int problem) const;
  void write_through(int file, std::size_t offset, std::span<const std::byte> bytes) const;

  std::string path_;       ///< as the user wrote it
  std::string target_;     ///< links resolved; empty when written directly
  std::string temporary_;  ///< empty while the file has no name
  int file_ = -1;
  int direct_ = -1;  ///< the same file, bypassing the page cache
};

}  // namespace kedge::io
