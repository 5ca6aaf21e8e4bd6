// Parts of models that a test writes.
#pragma once
#include <cstring>

#include "io/file_values.hpp"
#include "onnx/file.hpp"
#include "weft/io.hpp"
#include "weft/onnx.hpp"
#include "weft/weft.hpp"

namespace onnx_test {

using namespace weft;

using onnx::AttributeData;
using onnx::GraphData;
using onnx::ModelData;
using onnx::NodeData;
using onnx::TensorData;
using onnx::ValueData;
using Integers = std::vector<std::int64_t>;
using Tensors = std::vector<Tensor>;

inline AttributeData integers(const char* name, Integers values) {
  AttributeData made{name, AttributeData::Kind::integers};
  made.integers = std::move(values);
  return made;
}
inline AttributeData integer(const char* name, std::int64_t value) {
  AttributeData made{name, AttributeData::Kind::integer};
  made.integer = value;
  return made;
}
inline AttributeData graph(const char* name, GraphData value) {
  AttributeData made{name, AttributeData::Kind::graph};
  made.graph = std::make_shared<GraphData>(std::move(value));
  return made;
}
inline AttributeData attribute(const char* name, TensorData value) {
  AttributeData made{name, AttributeData::Kind::tensor};
  made.tensor = std::make_shared<TensorData>(std::move(value));
  return made;
}
inline TensorData tensor(const char* name, const Tensor& value) {
  TensorData made{name, onnx::element_type(value.dtype())};
  for (Dim size : value.shape()) made.sizes.push_back(size.constant());
  const io::HostElements elements(value, {});
  made.bytes.assign(elements.bytes().begin(), elements.bytes().end());
  return made;
}
inline TensorData sizes(const char* name, const Integers& values) {
  return tensor(name, from_span(values, {static_cast<std::int64_t>(values.size())}));
}
inline ValueData port(const char* name, std::vector<onnx::AxisData> axes) { return {name, 1, true, std::move(axes)}; }
inline std::vector<std::byte> bytes_of(const ModelData& model) {
  const std::string text = onnx::serialize_model(model);
  std::vector<std::byte> bytes(text.size());
  std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}
inline onnx::Model load(const ModelData& model) { return onnx::load(bytes_of(model)); }
// A model of operator set 13 over x [batch, 1, 6, 6], or these axes.
inline ModelData model_of(GraphData graph, std::vector<onnx::AxisData> axes = {{-1, "batch"}, {1}, {6}, {6}}) {
  ModelData model{8, {{"", 13}}, "test"};
  graph.name = "graph";
  if (graph.inputs.empty()) graph.inputs = {port("x", std::move(axes))};
  if (graph.outputs.empty()) graph.outputs = {port("y", {{-1, "batch"}, {-1, ""}})};
  model.graph = std::move(graph);
  return model;
}
inline bool same(const Tensor& a, const Tensor& b) { return allclose(a, b, {.rtol = 1e-5, .atol = 1e-6}).item<bool>(); }

}  // namespace onnx_test
