// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_file.h"

#include "base/arithmetic.h"
#include "base/file_version.h"
#include "base/json.h"
#include "base/wording.h"

#include <kedge/version.h>

#include <type_traits>

namespace kedge::io {

template <class T>
constexpr DType kStoredAs = std::is_same_v<T, float>    ? DType::f32
                            : std::is_same_v<T, double> ? DType::f64
                                                        : DType::i64;

TensorFile::TensorFile(const ByteSource& file, const std::string& format, unsigned newest, const std::string& what)
    : file_(file), label_(file.label()), info_(parse_safetensors(file, what)) {
  if (!says("format") || text("format") != format) {
    refuse("it is a safetensors file, but not {} of kedge", what);
  }
  const std::string written_by = says("kedge_version") ? text("kedge_version") : "";
  const std::string problem = format_problem(text("format_version"), newest, written_by);
  if (!problem.empty()) refuse("{}", problem);
}

void TensorFile::guard(const std::function<void()>& read) const {
  try {
    const std::string& written_by = text("kedge_version");
    if (!is_version(written_by)) refuse("'{}' is not a version of kedge", written_by);
    read();
  } catch (const Json::exception& problem) {
    const std::string_view words = problem.what();  // "[json.exception.type_error.302] type must be ..."
    refuse("its metadata is damaged: {}", words.substr(words.find(']') + 2));
  } catch (const UnknownSpace&) {
    throw;
  } catch (const Error& problem) {
    // A wrong argument elsewhere is a damaged file here, and what checks the parts does not know the file's name.
    if (std::string_view(problem.what()).starts_with(printable(label_ + ": "))) throw;
    refuse("{}{}", problem.text(), writer_if_other());
  }
}

unsigned TensorFile::version() const {
  return static_cast<unsigned>(std::stoul(text("format_version")));  // the constructor knows that it is a number
}

/// An unknown name may be one that another version of kedge has.
std::string TensorFile::writer_if_other() const {
  const std::string written_by = text("kedge_version");
  if (!is_version(written_by) || written_by == kedge::version()) return "";
  return fmt::format(" (it was written by kedge {}, this is {})", written_by, kedge::version());
}

const std::string& TensorFile::text(const std::string& key) const {
  const auto found = info_.metadata.find(key);
  if (found == info_.metadata.end()) refuse("its metadata lacks '{}'", key);
  return found->second;
}

TensorFile::Json TensorFile::json(const std::string& key) const {
  return parse_json(text(key), fmt::format("its metadata is damaged: '{}'", key));
}

std::uint64_t TensorFile::whole_number(const Json& value) const {
  if (!value.is_number_unsigned()) refuse("its metadata has something other than a whole number where one belongs");
  return value.get<std::uint64_t>();
}

double TensorFile::number(const Json& of, const char* name, double least, double most) const {
  const auto value = of.at(name).get<double>();
  if (!(value >= least && value <= most)) refuse("its {} is {}, which is out of range", name, value);
  return value;
}

const ArrayInfo& TensorFile::array(const std::string& name, DType dtype, std::size_t dimensions) const {
  const ArrayInfo& found = info_.tensor(name, label_);
  if (found.dtype != dtype || found.shape.size() != dimensions) {
    refuse("its tensor '{}' should have {} dimension(s) of {}, found {} of {}", name, dimensions, to_string(dtype),
           found.shape.size(), to_string(found.dtype));
  }
  return found;
}

template <class T>
void TensorFile::read(const std::string& name, const ArrayInfo& from, std::span<T> to) const {
  read_values(file_, from, 0, to);
  if constexpr (std::is_floating_point_v<T>) {
    if (!all_finite(std::span<const T>(to))) refuse("its tensor '{}' holds NaN or infinity", name);
  }
}

template <class T>
BasicMatrix<T> TensorFile::matrix(const std::string& name) const {
  const ArrayInfo& from = array(name, kStoredAs<T>, 2);
  BasicMatrix<T> to(from.shape[0], from.shape[1]);
  read(name, from, to.cells());
  return to;
}
template Matrix TensorFile::matrix(const std::string& name) const;
template Matrix64 TensorFile::matrix(const std::string& name) const;

template <class T>
std::vector<T> TensorFile::vector(const std::string& name) const {
  const ArrayInfo& from = array(name, kStoredAs<T>, 1);
  std::vector<T> to(from.shape[0]);
  read(name, from, std::span(to));
  return to;
}
template std::vector<float> TensorFile::vector(const std::string& name) const;
template std::vector<double> TensorFile::vector(const std::string& name) const;
template std::vector<std::int64_t> TensorFile::vector(const std::string& name) const;

const std::vector<std::size_t>& TensorFile::shape(const std::string& name, DType dtype, std::size_t dimensions) const {
  return array(name, dtype, dimensions).shape;
}

}  // namespace kedge::io
