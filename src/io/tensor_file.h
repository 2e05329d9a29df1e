// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/wording.h"
#include "io/safetensors.h"

#include <kedge/matrix.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace kedge::io {

/// A safetensors file that says it is one of kedge's: tensors by name, and metadata. Anything that is not as it should
/// be is refused with Error(Code::bad_file) and the file's name.
class TensorFile {
 public:
  using Json = nlohmann::json;

  /// The file must call itself `format`, in a version up to `newest`; messages call it `what`. It must outlive this.
  TensorFile(const ByteSource& file, const std::string& format, unsigned newest, const std::string& what);

  /// Runs `read`, and turns what it throws into a sentence about the file.
  void guard(const std::function<void()>& read) const;
  template <class... Arguments>
  [[noreturn]] void refuse(fmt::format_string<Arguments...> what, Arguments&&... arguments) const {
    refuse_file("{}: {}", label_, fmt::format(what, std::forward<Arguments>(arguments)...));
  }

  /// The version of the format.
  [[nodiscard]] unsigned version() const;
  [[nodiscard]] bool has(const std::string& tensor) const { return info_.tensors.contains(tensor); }
  [[nodiscard]] bool says(const std::string& key) const { return info_.metadata.contains(key); }
  [[nodiscard]] const std::string& text(const std::string& key) const;
  [[nodiscard]] Json json(const std::string& key) const;
  /// Refuses any other number, whose conversion would wrap or be undefined.
  [[nodiscard]] std::uint64_t whole_number(const Json& value) const;
  [[nodiscard]] double number(const Json& of, const char* name, double least,
                              double most = std::numeric_limits<double>::max()) const;

  /// Of a tensor, once its type and number of dimensions are checked; reads no value.
  [[nodiscard]] const std::vector<std::size_t>& shape(const std::string& name, DType dtype,
                                                      std::size_t dimensions) const;
  /// Finite values, or integers, of two dimensions or one.
  template <class T = float>
  [[nodiscard]] BasicMatrix<T> matrix(const std::string& name) const;
  template <class T = float>
  [[nodiscard]] std::vector<T> vector(const std::string& name) const;

 private:
  [[nodiscard]] std::string writer_if_other() const;
  [[nodiscard]] const ArrayInfo& array(const std::string& name, DType dtype, std::size_t dimensions) const;
  template <class T>
  void read(const std::string& name, const ArrayInfo& from, std::span<T> to) const;
  const ByteSource& file_;
  const std::string& label_;
  SafetensorsInfo info_;
};

}  // namespace kedge::io
