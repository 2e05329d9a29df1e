// SPDX-License-Identifier: Apache-2.0
#include "inputs.h"

#include "text.h"

#include <fmt/format.h>
#include <kedge/draw.h>
#include <kedge/error.h>

#include <algorithm>
#include <utility>

namespace kedge::python {
namespace {

using Type = ArrayView::Type;

std::optional<Type> type_of(nb::dlpack::dtype dtype) {
  constexpr auto kFloat = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float);
  constexpr auto kBfloat = static_cast<std::uint8_t>(nb::dlpack::dtype_code::Bfloat);
  constexpr auto kUnsigned = static_cast<std::uint8_t>(nb::dlpack::dtype_code::UInt);
  if (dtype.lanes != 1) return std::nullopt;
  if (dtype.code == kFloat && dtype.bits == 32) return Type::f32;
  if (dtype.code == kFloat && dtype.bits == 64) return Type::f64;
  if (dtype.code == kFloat && dtype.bits == 16) return Type::f16;
  if (dtype.code == kBfloat && dtype.bits == 16) return Type::bf16;
  if (dtype.code == kUnsigned && dtype.bits == 8) return Type::u8;
  return std::nullopt;
}

/// What DLPack would hand over without a word, and what it means would be lost: masks, gradients, signs that torch only
/// notes. Arrow's arrays are asked in another way, too.
bool is_more_than_memory(nb::handle given) {
  if (nb::hasattr(given, "mask")) return true;
  if (nb::hasattr(given, "requires_grad") && nb::cast<bool>(given.attr("requires_grad"))) return true;
  if (nb::hasattr(given, "is_neg") && nb::cast<bool>(given.attr("is_neg")())) return true;
  const nb::object module = nb::getattr(given.type(), "__module__", nb::none());
  return nb::isinstance<nb::str>(module) &&
         std::string_view(nb::borrow<nb::str>(module).c_str()).starts_with("pyarrow");
}

ArrayView view_of(const nb::ndarray<nb::ro>& array) {
  const auto width = static_cast<std::int64_t>(array.dtype().bits / 8);
  ArrayView view;
  view.data = array.data();
  view.type = type_of(array.dtype()).value();
  view.rows = array.shape(0);
  view.cols = array.shape(1);
  view.row_bytes = array.stride(0) * width;
  view.col_bytes = array.stride(1) * width;
  return view;
}

}  // namespace

bool is_parquet(std::string_view path) {
  return path.ends_with(".parquet") || path.find(".parquet#") != std::string_view::npos;
}

Input::Input(nb::handle given, const std::string& whose, const std::string& label) {
  if (!is_more_than_memory(given) && take(given, label)) return;
  // Lists, tables, columns and the like, all of which Python knows better how to read.
  if (take(nb::module_::import_("kedge._inputs").attr("rows_of")(given, whose), label)) return;
  throw Error(Code::bad_argument, fmt::format("{}: expected a matrix of floats or the path of a file, found {}", whose,
                                              nb::type_name(given.type()).c_str()));
}

bool Input::take(nb::handle given, const std::string& label) {
  if (nb::isinstance<nb::str>(given)) {
    const std::string path = path_of(given);
    if (is_parquet(path)) return false;
    rows_ = open_rows(path);
    return true;
  }
  nb::ndarray<nb::ro> array;
  if (!nb::try_cast(given, array) || !array.is_valid() || array.ndim() != 2 || !type_of(array.dtype()) ||
      array.device_type() != nb::device::cpu::value) {
    return false;
  }
  array_ = std::move(array);
  rows_ = view_rows(view_of(array_), label);
  return true;
}

bool Input::overlaps(const void* first, std::size_t bytes) const {
  if (is_file() || array_.size() == 0 || bytes == 0) return false;
  const auto width = static_cast<std::int64_t>(array_.dtype().bits / 8);
  auto low = reinterpret_cast<std::uintptr_t>(array_.data());
  std::uintptr_t high = low + static_cast<std::uintptr_t>(width);
  for (std::size_t axis = 0; axis < array_.ndim(); ++axis) {
    const std::int64_t reach = (static_cast<std::int64_t>(array_.shape(axis)) - 1) * array_.stride(axis) * width;
    (reach < 0 ? low : high) += static_cast<std::uintptr_t>(reach);
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(first);
  return begin < high && low < begin + bytes;
}

std::optional<MatrixView<const float>> Input::in_place() const {
  if (is_file() || type_of(array_.dtype()) != Type::f32) return std::nullopt;
  const std::int64_t stride = array_.stride(0);
  const std::size_t cols = array_.shape(1);
  const bool rows_in_order = array_.stride(1) == 1 || cols == 1;
  if (!rows_in_order || (array_.shape(0) > 1 && stride < static_cast<std::int64_t>(cols))) return std::nullopt;
  const bool aligned = reinterpret_cast<std::uintptr_t>(array_.data()) % alignof(float) == 0;
  if (!aligned) return std::nullopt;
  return MatrixView<const float>{static_cast<const float*>(array_.data()), array_.shape(0), cols,
                                 array_.shape(0) > 1 ? static_cast<std::size_t>(stride) : cols};
}

Inputs::Inputs(const nb::list& given) {
  for (const nb::handle item : given) {
    const nb::object rows = item[1];
    const std::string name = text_of(item[0], "a space's name");
    inputs_.emplace_back(rows, fmt::format("space '{}'", name), "the array");
    names_.push_back(name);
  }
}

std::vector<Space> Inputs::spaces(const RowChoice& rows) const {
  std::vector<Space> spaces;
  for (std::size_t i = 0; i < names_.size(); ++i) spaces.push_back(rows.of(names_[i], inputs_[i].rows()));
  return spaces;
}

bool Inputs::any_file() const {
  return std::ranges::any_of(inputs_, &Input::is_file);
}

Floats::Floats(const Input& input, const Space& space) {
  const std::optional<MatrixView<const float>> in_place = space.is_range() ? input.in_place() : std::nullopt;
  if (!in_place) {
    converted_ = space.read_all();
    view_ = std::as_const(converted_).view();
    return;
  }
  view_ = in_place->middle_rows(space.range().begin, space.rows());
  constexpr std::size_t kBlockValues = std::size_t{1} << 16;  // read() looks at every value, so a small copy is enough
  Matrix block(std::clamp<std::size_t>(kBlockValues / std::max<std::size_t>(1, space.dim()), 1, 4096), space.dim());
  for (std::size_t first = 0; first < space.rows(); first += block.rows()) {
    space.read(first, block.view().middle_rows(0, std::min(block.rows(), space.rows() - first)));
  }
}

std::vector<std::int64_t> to_vector(const Integers& values) {
  return {values.data(), values.data() + values.shape(0)};
}

std::vector<std::int64_t> to_ids(const nb::object& given) {
  if (given.is_none()) return {};
  const nb::object found = nb::module_::import_("kedge._inputs").attr("ids_of_rows")(given);
  std::vector<std::int64_t> ids = to_vector(nb::cast<Integers>(found));
  for (std::int64_t& id : ids) id = id_number(id);
  return ids;
}

std::vector<std::int64_t> to_pairs(const nb::object& given, std::size_t columns, const char* what) {
  const nb::object found = nb::module_::import_("kedge._inputs").attr("pairs_of")(given, columns, what);
  if (nb::isinstance<nb::str>(found)) return read_integer_rows(path_of(found), columns, what);
  return to_vector(nb::cast<Integers>(found));
}

Space RowChoice::of(const std::string& name, std::shared_ptr<const RowSource> source) const {
  if (ids.ids.empty()) return {name, std::move(source), range};
  return {name, std::move(source), ids};
}

RowChoice to_rows(const nb::object& given, const char* label) {
  if (given.is_none()) return {};
  const nb::module_ inputs = nb::module_::import_("kedge._inputs");
  if (nb::cast<bool>(inputs.attr("are_ids")(given))) {
    const auto [ids, of] =
        nb::cast<std::pair<Integers, std::optional<std::size_t>>>(inputs.attr("ids_of")(given, label));
    return {{}, {to_vector(ids), of}};
  }
  const auto [first, end] = nb::cast<std::pair<std::size_t, std::size_t>>(inputs.attr("range_of")(given, label));
  return {{first, end}, {}};
}

}  // namespace kedge::python
