// SPDX-License-Identifier: Apache-2.0
#include "io/output_file.h"
#include "io/protobuf.h"

#include <fmt/format.h>
#include <kedge/bundle.h>
#include <kedge/error.h>
#include <kedge/version.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <utility>

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

/// What a caller sees of an input or output: rows, as many as there are, of `cols` values.
Message value_info(std::string_view name, std::size_t cols) {
  const Message shape = Message().message(1, Message().text(2, "rows")).message(1, Message().number(1, cols));
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
  [[nodiscard]] Message finish(const RelativeMap& map) && {
    graph_.text(2, "kedge_map").message(11, value_info("x", map.input_dim()));
    return std::move(graph_.message(12, value_info("rr", map.output_dim())));
  }

 private:
  Message graph_;
};

void add_affine(Graph& graph, const RelativeMap& map) {
  graph.constant("bias", {map.output_dim()}, map.bias());
  graph.node("Gemm", {"x", "weight", "bias"}, "rr", {integer("transB", 1)});
}

void add_cosine(Graph& graph) {
  // RelativeMap takes lengths in float64. Here the largest value is divided out first, so that no square leaves the
  // range of float32, which more runtimes have and are fast in. A row of zeros stays one, as there.
  static constexpr float kSmallest[] = {std::numeric_limits<float>::min()};
  const Message keep = integer("keepdims", 1);
  graph.constant("smallest", {}, kSmallest);
  graph.node("Abs", {"x"}, "magnitudes");
  graph.node("ReduceMax", {"magnitudes"}, "largest", {along_rows(), keep});
  graph.node("Max", {"largest", "smallest"}, "scale");
  graph.node("Div", {"x", "scale"}, "scaled");
  graph.node("ReduceL2", {"scaled"}, "length", {along_rows(), keep});
  graph.node("Max", {"length", "smallest"}, "nonzero_length");
  graph.node("Div", {"scaled", "nonzero_length"}, "unit");
  graph.node("Gemm", {"unit", "weight"}, "rr", {integer("transB", 1)});
}

void add_euclidean(Graph& graph, const RelativeMap& map) {
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
  graph.node("Cast", {"distance"}, "rr", {to(kFloat)});
}

Message make_graph(const RelativeMap& map) {
  Graph graph;
  graph.constant("weight", {map.output_dim(), map.input_dim()}, map.weight().cells());
  switch (map.similarity()) {
    case Similarity::wip:
    case Similarity::inner: add_affine(graph, map); break;
    case Similarity::cosine: add_cosine(graph); break;
    case Similarity::euclidean: add_euclidean(graph, map); break;
  }
  return std::move(graph).finish(map);
}

}  // namespace

void export_onnx(const RelativeMap& map, const std::string& path) {
  Message model;
  model.number(1, kIrVersion).text(2, "kedge").text(3, version());
  model.message(7, make_graph(map)).message(8, Message().number(2, kOpset));
  const auto describe = [&](std::string_view key, std::string_view value) {
    model.message(14, Message().text(1, key).text(2, value));
  };
  describe("format", "kedge map");
  describe("kedge_version", version());
  describe("space", map.space());
  describe("similarity", to_string(map.similarity()));
  if (model.size() > kLargest) {
    throw Error(
        Code::bad_argument,
        fmt::format("cannot export the map of '{}' to '{}': it takes {:.1f} GB, but an ONNX file holds at most 2; "
                    "export it as safetensors",
                    map.space(), path, static_cast<double>(model.size()) / 1e9));
  }
  io::OutputFile file(path);
  model.append_to(file);
  file.finish(io::Durability::flushed);
}

}  // namespace kedge
