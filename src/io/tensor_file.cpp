// SPDX-License-Identifier: Apache-2.0
#include "io/tensor_file.h"

#include "base/file_version.h"
#include "base/finite.h"
#include "base/json.h"
#include "base/refuse.h"

#include <kedge/version.h>

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace kedge::io {

TensorFile::TensorFile(const ByteSource& file, const std::string& format, unsigned newest, const std::string& what)
    : file_(file), label_(file.label()), info_(parse_safetensors(file, what)) {
  if (!says("format") || text("format") != format) {
    refuse(fmt::format("it is a safetensors file, but not {} of kedge", what));
  }
  const std::string written_by = says("kedge_version") ? text("kedge_version") : "";
  const std::string problem = format_problem(text("format_version"), newest, written_by);
  if (!problem.empty()) refuse(problem);
}

void TensorFile::guard(const std::function<void()>& read) const {
  try {
    const std::string& written_by = text("kedge_version");
    if (!is_version(written_by)) refuse(fmt::format("'{}' is not a version of kedge", written_by));
    read();
  } catch (const Json::exception& problem) {
    const std::string_view words = problem.what();  // "[json.exception.type_error.302] type must be ..."
    refuse(fmt::format("its metadata is damaged: {}", words.substr(words.find(']') + 2)));
  } catch (const UnknownSpace&) {
    throw;
  } catch (const Error& problem) {
    // A wrong argument elsewhere is a damaged file here, and what checks the parts does not know the file's name.
    if (std::string_view(problem.what()).starts_with(printable(label_ + ": "))) throw;
    refuse(problem.text() + writer_if_other());
  }
}

void TensorFile::refuse(const std::string& what) const {
  refuse_file("{}: {}", label_, what);
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
  if (found == info_.metadata.end()) refuse(fmt::format("its metadata lacks '{}'", key));
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
  if (!(value >= least && value <= most)) refuse(fmt::format("its {} is {}, which is out of range", name, value));
  return value;
}

const ArrayInfo& TensorFile::array(const std::string& name, DType dtype, std::size_t dimensions) const {
  const ArrayInfo& found = info_.tensor(name, label_);
  if (found.dtype != dtype || found.shape.size() != dimensions) {
    refuse(fmt::format("its tensor '{}' should have {} dimension(s) of {}, found {} of {}", name, dimensions,
                       to_string(dtype), found.shape.size(), to_string(found.dtype)));
  }
  return found;
}

template <class T>
void TensorFile::read(const std::string& name, const ArrayInfo& from, std::span<T> to) const {
  read_values(file_, from, 0, to);
  if constexpr (std::is_floating_point_v<T>) {
    if (!all_finite(std::span<const T>(to))) refuse(fmt::format("its tensor '{}' holds NaN or infinity", name));
  }
}

template <class T>
BasicMatrix<T> TensorFile::matrix_of(const std::string& name, DType dtype) const {
  const ArrayInfo& from = array(name, dtype, 2);
  BasicMatrix<T> to(from.shape[0], from.shape[1]);
  read(name, from, to.cells());
  return to;
}

template <class T>
std::vector<T> TensorFile::vector_of(const std::string& name, DType dtype) const {
  const ArrayInfo& from = array(name, dtype, 1);
  std::vector<T> to(from.shape[0]);
  read(name, from, std::span(to));
  return to;
}

const std::vector<std::size_t>& TensorFile::shape(const std::string& name, DType dtype, std::size_t dimensions) const {
  return array(name, dtype, dimensions).shape;
}
Matrix TensorFile::matrix(const std::string& name) const {
  return matrix_of<float>(name, DType::f32);
}
Matrix64 TensorFile::matrix64(const std::string& name) const {
  return matrix_of<double>(name, DType::f64);
}
std::vector<float> TensorFile::vector(const std::string& name) const {
  return vector_of<float>(name, DType::f32);
}
std::vector<double> TensorFile::vector64(const std::string& name) const {
  return vector_of<double>(name, DType::f64);
}
std::vector<std::int64_t> TensorFile::integers(const std::string& name) const {
  return vector_of<std::int64_t>(name, DType::i64);
}

}  // namespace kedge::io
