// SPDX-License-Identifier: Apache-2.0
#include "base/wording.h"
#include "io/output_file.h"
#include "io/outputs.h"
#include "io/protobuf.h"

#include <kedge/export.h>
#include <kedge/version.h>

#include <initializer_list>
#include <limits>
#include <numbers>

// The messages are written by hand, with the field numbers of onnx.proto: a model of a dozen nodes needs too few of
// them to depend on the onnx and protobuf libraries.

namespace kedge {
namespace {

using io::Message;

constexpr std::uint64_t kIrVersion = 8, kOpset = 17;
constexpr std::uint64_t kFloat = 1, kDouble = 11;  // TensorProto.DataType
constexpr std::size_t kLargest = std::numeric_limits<std::int32_t>::max();

Message integer(std::string_view name, std::uint64_t value) {
  constexpr std::uint64_t kInt = 2;
  return Message().text(1, name).number(3, value).number(20, kInt);
}

Message real(std::string_view name, float value) {
  constexpr std::uint64_t kReal = 1;
  return Message().text(1, name).real(2, value).number(20, kReal);
}

/// The attribute that makes a reduction one of each row.
Message along_rows() {
  constexpr std::uint64_t kInts = 7;
  return Message().text(1, "axes").number(8, 1).number(20, kInts);
}

Message subgraph(std::string_view name, const Message& graph) {
  constexpr std::uint64_t kGraph = 5;
  return Message().text(1, name).message(6, graph).number(20, kGraph);
}

Message some_rows() {  // as many as there are
  return Message().text(2, "rows");
}
Message values(std::size_t count) {
  return Message().number(1, count);
}

/// What a caller sees of an input or output, such as rows of so many values.
Message value_info(std::string_view name, std::initializer_list<Message> dimensions) {
  Message shape;
  for (const Message& dimension : dimensions) shape.message(1, dimension);
  const Message tensor = Message().number(1, kFloat).message(2, shape);
  return Message().text(1, name).message(2, Message().message(1, tensor));
}

class Graph {
 public:
  void constant(std::string_view name, std::initializer_list<std::size_t> shape, std::span<const float> values) {
    Message tensor;
    for (const std::size_t length : shape) tensor.number(1, length);
    graph_.message(5, tensor.number(2, kFloat).text(8, name).borrow(9, std::as_bytes(values)));
  }
  void node(std::string_view operation, std::initializer_list<std::string_view> inputs, std::string_view output,
            std::initializer_list<Message> attributes = {}) {
    Message node;
    for (const std::string_view input : inputs) node.text(1, input);
    node.text(2, output).text(3, output).text(4, operation);
    for (const Message& attribute : attributes) node.message(5, attribute);
    graph_.message(1, node);
  }
  [[nodiscard]] Message finish(std::string_view name, const Message& input, const Message& output) && {
    return std::move(graph_.text(2, name).message(11, input).message(12, output));
  }

 private:
  Message graph_;
};

void add_affine(Graph& graph, const std::vector<float>& bias, std::string_view output) {
  graph.constant("bias", {bias.size()}, bias);
  graph.node("Gemm", {"x", "weight", "bias"}, output, {integer("transB", 1)});
}

/// Rows of length 1.
void add_unit(Graph& graph, std::string_view input, std::string_view output) {
  // RelativeMap takes lengths in float64. Here the largest value is divided out first, so that no square leaves the
  // range of float32, which more runtimes have and are fast in. A row of zeros stays one, as there.
  static constexpr float kSmallest[] = {std::numeric_limits<float>::min()};
  const auto name = [&](std::string_view part) { return fmt::format("{}_{}", output, part); };
  const Message keep = integer("keepdims", 1);
  const std::string smallest = name("smallest"), magnitudes = name("magnitudes"), largest = name("largest"),
                    scale = name("scale"), scaled = name("scaled"), length = name("length"),
                    nonzero_length = name("nonzero_length");
  graph.constant(smallest, {}, kSmallest);
  graph.node("Abs", {input}, magnitudes);
  graph.node("ReduceMax", {magnitudes}, largest, {along_rows(), keep});
  graph.node("Max", {largest, smallest}, scale);
  graph.node("Div", {input, scale}, scaled);
  graph.node("ReduceL2", {scaled}, length, {along_rows(), keep});
  graph.node("Max", {length, smallest}, nonzero_length);
  graph.node("Div", {scaled, nonzero_length}, output);
}

void add_cosine(Graph& graph, std::string_view output) {
  add_unit(graph, "x", "unit");
  graph.node("Gemm", {"unit", "weight"}, output, {integer("transB", 1)});
}

void add_euclidean(Graph& graph, const RelativeMap& map, std::string_view output) {
  // |x|^2 + |a|^2 - 2 x.a cancels near an anchor, where RelativeMap takes the difference instead. That would need
  // rows x anchors x dim values here; float64 keeps the digits without. The bias, being float32, would lose them again.
  const auto to = [](std::uint64_t type) { return integer("to", type); };
  graph.constant("mean", {map.input_dim()}, map.mean());
  graph.node("Sub", {"x", "mean"}, "centred_float");  // rounded as RelativeMap rounds it
  graph.node("Cast", {"centred_float"}, "centred", {to(kDouble)});
  graph.node("Cast", {"weight"}, "anchors", {to(kDouble)});
  graph.node("ReduceSumSquare", {"centred"}, "row_squares", {along_rows(), integer("keepdims", 1)});
  graph.node("ReduceSumSquare", {"anchors"}, "anchor_squares", {along_rows(), integer("keepdims", 0)});
  graph.node("Gemm", {"centred", "anchors", "anchor_squares"}, "without_row_squares",
             {real("alpha", -2), integer("transB", 1)});
  graph.node("Add", {"without_row_squares", "row_squares"}, "squared");
  graph.node("Relu", {"squared"}, "not_negative");
  graph.node("Sqrt", {"not_negative"}, "distance");
  graph.node("Cast", {"distance"}, output, {to(kFloat)});
}

/// What a map without a kernel computes is its first part; see docs/format.md.
void add_kernel(Graph& graph, const Kernel& kernel, std::span<const float> bias, std::span<const float> mean,
                std::string_view output) {
  static constexpr float kOne[] = {1};
  const auto to = [](std::uint64_t type) { return integer("to", type); };
  graph.constant("mean", {mean.size()}, mean);
  graph.constant("bias", {bias.size()}, bias);
  graph.constant("kernel_rows", {kernel.rows.rows(), kernel.rows.cols()}, kernel.rows.cells());
  graph.constant("kernel_coefficients", {kernel.coefficients.rows(), kernel.coefficients.cols()},
                 kernel.coefficients.cells());
  graph.node("Sub", {"x", "mean"}, "centred");
  if (kernel.whitener.rows() != 0) {
    graph.constant("kernel_whitener", {kernel.whitener.rows(), kernel.whitener.cols()}, kernel.whitener.cells());
    graph.node("MatMul", {"centred", "kernel_whitener"}, "whitened");
  }
  add_unit(graph, kernel.whitener.rows() != 0 ? "whitened" : "centred", "unit");
  graph.node("Gemm", {"unit", "weight", "bias"}, "line", {integer("transB", 1)});
  graph.node("Gemm", {"unit", "kernel_rows"}, "products",
             {real("alpha", static_cast<float>(kernel.width)), integer("transB", 1)});
  // e^u - 1 - u cancels near 0 in float32.
  graph.constant("one_float", {}, kOne);
  graph.node("Cast", {"one_float"}, "one", {to(kDouble)});
  graph.node("Cast", {"products"}, "u", {to(kDouble)});
  graph.node("Exp", {"u"}, "exponential");
  graph.node("Sub", {"exponential", "one"}, "without_one");
  graph.node("Sub", {"without_one", "u"}, "beyond_line");
  graph.node("Cast", {"beyond_line"}, "curve", {to(kFloat)});
  graph.node("MatMul", {"curve", "kernel_coefficients"}, "curved");
  graph.node("Add", {"line", "curved"}, output);
}

void add_angular(Graph& graph, std::string_view output) {
  // The angle of x and a, both of length 1, is 2 atan(|x - a| / |x + a|), which keeps its digits where the cosine has
  // none left. Lengths in float64, as for euclidean; runtimes have the arc tangent in float32.
  static constexpr float kLeast[] = {1e-30F};  // zeros have an angle of 90 degrees with zeros
  static constexpr float kShare[] = {-2 / std::numbers::pi_v<float>};
  static constexpr float kOne[] = {1};
  const auto to = [](std::uint64_t type) { return integer("to", type); };
  graph.constant("least_float", {}, kLeast);
  graph.constant("share", {}, kShare);
  graph.constant("one", {}, kOne);
  add_unit(graph, "x", "unit_float");
  graph.node("Cast", {"unit_float"}, "unit", {to(kDouble)});
  graph.node("Cast", {"weight"}, "anchors", {to(kDouble)});
  graph.node("Cast", {"least_float"}, "least", {to(kDouble)});
  graph.node("ReduceSumSquare", {"unit"}, "row_squares", {along_rows(), integer("keepdims", 1)});
  graph.node("ReduceSumSquare", {"anchors"}, "anchor_squares", {along_rows(), integer("keepdims", 0)});
  for (const auto& [name, twice] : {std::pair<std::string, float>{"difference", -2}, {"sum", 2}}) {
    graph.node("Gemm", {"unit", "anchors", "anchor_squares"}, name + "_part",
               {real("alpha", twice), integer("transB", 1)});
    graph.node("Add", {name + "_part", "row_squares"}, name + "_squared");
    graph.node("Relu", {name + "_squared"}, name + "_not_negative");
    graph.node("Sqrt", {name + "_not_negative"}, name + "_length");
    graph.node("Add", {name + "_length", "least"}, name);
  }
  graph.node("Div", {"difference", "sum"}, "tangent_double");
  graph.node("Cast", {"tangent_double"}, "tangent", {to(kFloat)});
  graph.node("Atan", {"tangent"}, "half_angle");
  graph.node("Mul", {"half_angle", "share"}, "minus_share");
  graph.node("Add", {"minus_share", "one"}, output);
}

void add_manhattan(Graph& graph, const RelativeMap& map, std::string_view output) {
  // One anchor after the other: all differences at once would take rows x anchors x dim values. Scan could put its
  // results beside each other by itself (scan_output_axes), but onnxruntime then divides by the number of rows, and
  // without rows that ends the process; a node that transposes takes them.
  Graph body;
  body.node("Sub", {"centred", "anchor"}, "difference");
  body.node("ReduceL1", {"difference"}, "distance", {along_rows(), integer("keepdims", 0)});
  const Message one_anchor = std::move(body).finish("one_anchor", value_info("anchor", {values(map.input_dim())}),
                                                    value_info("distance", {some_rows()}));
  graph.constant("mean", {map.input_dim()}, map.mean());
  graph.node("Sub", {"x", "mean"}, "centred");
  graph.node("Scan", {"weight"}, "by_anchor", {subgraph("body", one_anchor), integer("num_scan_inputs", 1)});
  graph.node("Transpose", {"by_anchor"}, output);
}

void add_map(Graph& graph, const RelativeMap& map, std::string_view output) {
  switch (map.similarity()) {
    case Similarity::wip:
    case Similarity::inner: return add_affine(graph, map.bias(), output);
    case Similarity::cosine: return add_cosine(graph, output);
    case Similarity::euclidean: return add_euclidean(graph, map, output);
    case Similarity::angular: return add_angular(graph, output);
    case Similarity::manhattan: return add_manhattan(graph, map, output);
  }
}

void add_map(Graph& graph, const Translator& translator, std::string_view output) {
  add_affine(graph, translator.bias(), output);
}

template <class Map>
Message make_graph(std::string_view name, const Map& map, std::string_view output, const ExportOptions& options) {
  const std::string_view last = options.normalize ? "any_length" : output;
  Graph graph;
  graph.constant("weight", {map.output_dim(), map.input_dim()}, map.weight().cells());
  if (map.kernel()) {
    add_kernel(graph, *map.kernel(), map.bias(), map.mean(), last);
  } else {
    add_map(graph, map, last);
  }
  if (options.normalize) add_unit(graph, last, output);
  return std::move(graph).finish(name, value_info("x", {some_rows(), values(map.input_dim())}),
                                 value_info(output, {some_rows(), values(map.output_dim())}));
}

using Description = std::vector<std::pair<std::string_view, std::string_view>>;

void save(const Message& graph, const Description& description, const std::string& path, const ExportOptions& options) {
  if (!options.in_place) require_replaceable(path, ResultKind::onnx_map);
  Message model;
  // Who made it stands second, where require_replaceable() looks for it.
  model.number(1, kIrVersion).text(2, "kedge").text(3, version());
  model.message(7, graph).message(8, Message().number(2, kOpset));
  const auto describe = [&](std::string_view key, std::string_view value) {
    model.message(14, Message().text(1, key).text(2, value));
  };
  for (const auto& [key, value] : description) describe(key, value);
  describe("kedge_version", version());
  if (options.normalize) describe("normalize", "true");
  if (model.size() > kLargest) {
    refuse(
        "cannot export to '{}': the model takes {:.1f} GB, but an ONNX file holds at most 2; export it as safetensors",
        path, static_cast<double>(model.size()) / 1e9);
  }
  io::OutputFile file(path);
  model.append_to(file);
  file.finish(io::Durability::flushed);
}

}  // namespace

void export_onnx(const RelativeMap& map, const std::string& path, const ExportOptions& options) {
  save(make_graph("kedge_map", map, "rr", options),
       {{"format", "kedge map"}, {"space", map.space()}, {"similarity", to_string(map.similarity())}}, path, options);
}

void export_onnx(const Translator& translator, const std::string& path, const ExportOptions& options) {
  save(make_graph("kedge_translator", translator, "y", options),
       {{"format", "kedge translator"}, {"from", translator.from()}, {"to", translator.to()}}, path, options);
}

}  // namespace kedge
