// SPDX-License-Identifier: Apache-2.0
#include "apply.h"

#include "work.h"

#include <fmt/format.h>
#include <kedge/error.h>
#include <kedge/relative_map.h>

#include <algorithm>
#include <span>
#include <utility>

namespace kedge::python {
namespace {

constexpr std::size_t kBlockRows = 4096;

/// A tensor, or a parameter or another kind of one.
bool is_tensor(nb::handle x) {
  return nb::hasattr(x.type(), "__torch_function__");
}

void require_fits(const RowFunction& function, const RowSource& rows) {
  if (rows.cols() == function.input_dim) return;
  throw Error(Code::bad_argument,
              fmt::format("'{}' expects embeddings of {} values, got {}; were they made by another encoder?",
                          function.space, function.input_dim, rows.cols()));
}

void require_finite(const RowFunction& function, const RowSource& x, std::size_t first, MatrixView<const float> y) {
  if (all_finite(std::span(y.data, y.rows * y.cols))) return;  // all of them at once: rows may be short
  std::size_t row = 0;
  while (all_finite(y.row(row))) ++row;
  Matrix values(1, function.input_dim);
  const Space space(function.space, std::shared_ptr<const RowSource>(std::shared_ptr<void>(), &x));
  space.read(first + row, values.view());  // throws if the row itself is at fault
  throw Error(Code::bad_argument, fmt::format("row {} of X is too large for the map of '{}': its result does not fit "
                                              "in float32; is it scaled like the embeddings the map was made from?",
                                              first + row, function.space));
}

void apply(const RowFunction& function, const Input& input, bool normalize, MatrixView<float> y) {
  const RowSource& x = *input.rows();
  const std::optional<MatrixView<const float>> in_place = input.in_place();
  const std::size_t step = in_place && function.affine ? std::max<std::size_t>(1, x.rows()) : kBlockRows;
  Matrix converted = in_place ? Matrix() : Matrix(std::min(step, x.rows()), x.cols());
  for (std::size_t first = 0; first < x.rows(); first += step) {
    require_running();
    const std::size_t count = std::min(step, x.rows() - first);
    if (!in_place) x.read(first, converted.view().middle_rows(0, count));
    function.apply(
        in_place ? in_place->middle_rows(first, count) : std::as_const(converted).view().middle_rows(0, count),
        y.middle_rows(first, count));
    require_finite(function, x, first, y.middle_rows(first, count));
    if (normalize) normalize_rows(y.middle_rows(first, count));
  }
}

using Out = nb::ndarray<float, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

/// The caller's own memory: a converted copy would be written to and lost.
Out writable(nb::handle given, const Input& input, std::size_t rows, std::size_t cols) {
  Out out;
  if (!nb::try_cast(given, out, false) || out.shape(0) != rows || out.shape(1) != cols) {
    const nb::object shape = nb::getattr(given, "shape", nb::none());
    const nb::object dtype = nb::getattr(given, "dtype", nb::none());
    throw Error(
        Code::bad_argument,
        fmt::format("out: expected a writable float32 array in C order of {} x {}, found {} of shape {} and {}", rows,
                    cols, nb::type_name(given.type()).c_str(), nb::str(shape).c_str(), nb::str(dtype).c_str()));
  }
  if (input.overlaps(out.data(), rows * cols * sizeof(float))) {
    throw Error(Code::bad_argument,
                "out: it shares memory with X, which would change while it is being read; give another array");
  }
  return out;
}

}  // namespace

nb::object apply_to(const RowFunction& function, nb::handle x, nb::handle given_out, bool normalize) {
  const Call call;
  const Input input(x, "X", "X");
  require_fits(function, *input.rows());
  const std::size_t rows = input.rows()->rows();
  Out out;
  FloatMatrix made;
  if (given_out.is_none()) {
    made = make_matrix(rows, function.output_dim);
  } else {
    out = writable(given_out, input, rows, function.output_dim);
  }
  float* values = given_out.is_none() ? made.data() : out.data();
  {
    const nb::gil_scoped_release without_gil;
    try {
      apply(function, input, normalize, {values, rows, function.output_dim, function.output_dim});
    } catch (const Error& problem) {
      if (!input.is_file() && problem.code() == Code::bad_file) throw Error(Code::bad_argument, problem.text());
      throw;
    }
  }
  if (!given_out.is_none()) return nb::borrow(given_out);
  if (is_tensor(x)) return nb::cast(nb::ndarray<nb::pytorch, float, nb::ndim<2>>(made));
  return nb::cast(made);
}

}  // namespace kedge::python
