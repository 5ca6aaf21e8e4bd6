// Writes the nodes of a graph, or of one inside a loop or a choice: names, numbers, sizes; export_operations.cpp has
// what each primitive and composite becomes, export_regions.cpp loops and choices.
#pragma once
#include <set>
#include <unordered_map>

#include "onnx/export.hpp"

namespace weft::onnx {

using Integers = std::vector<std::int64_t>;
using AttributeList = std::vector<AttributeData>;

AttributeData attribute(const char* name, std::int64_t value);
AttributeData attribute(const char* name, double value);
AttributeData attribute(const char* name, const char* value);
AttributeData attribute(const char* name, Integers values);
AttributeData attribute(const char* name, GraphData graph);
inline AttributeData attribute(const char* name, int value) { return attribute(name, std::int64_t{value}); }
inline const Shape& shape_of(const Tensor& value) { return type_of(value).shape; }

// Whether ONNX has the composite as a node; else its body takes its place.
bool has_node(const Node& node);

class Writer {
 public:
  // Of the whole graph, or of one inside.
  Writer(const Graph& graph, const ModelPurpose& purpose) : symbols_(graph), purpose_(purpose) {}
  Writer(Writer& outer) : symbols_(outer.symbols_), outer_(&outer), purpose_(outer.purpose_) {}

  GraphData made;
  std::set<std::string> taken;  // names of inputs and initializers

  std::string fresh();
  void set(const Tensor& value, std::string name) { names_[value.word()] = std::move(name); }
  std::string name(const Tensor& value) const;
  std::string emit(const char* operation, std::vector<std::string> inputs, AttributeList attributes = {});
  std::string integers(const Integers& values);
  // A number of a dtype, without axes.
  std::string number(DType dtype, double value);
  std::string integer(DType dtype, std::int64_t value);
  std::string scalar(const Tensor& value);
  std::string cast(const std::string& value, DType to);
  void nodes_of(const Graph& graph);
  // The values as outputs, each under a name of its own.
  void outputs_of(std::span<const Tensor> values, std::span<const std::string> wanted);
  static ValueData port(const std::string& name, const Type& type);

 private:
  template <class... Parts>
  [[noreturn]] void refuse(const Node& node, const Parts&... parts) const {
    purpose_.refuse(node.loc, parts...);
  }

  // A size as a vector of one i64.
  std::string size(Dim dim);
  std::string atom(const DimNode& node);
  std::string sizes(const Shape& shape);
  std::string reshaped(const std::string& value, const Shape& shape);
  std::string filled(const Type& type, const std::string& value);

  // ONNX broadcasts: an operand need not be expanded where another one has the whole shape.
  static bool expands(const Tensor& value);
  std::string operand(const Node& node, std::size_t i);
  std::vector<std::string> operands(const Node& node);
  void write(const Node& node);
  std::string written(const Node& node);
  std::string rows_updated(const Node& node, int axis, const std::string& numbers, bool adds);
  std::string padded(const Node& node);
  std::string convolved(const Node& node);
  void write_call(const Node& node);

  static Graph body_of(const Node& node, std::size_t i);
  void give(const Node& node, const std::vector<std::string>& results);
  std::vector<std::string> fresh_names(std::size_t count);
  void write_scan(const Node& node);
  void write_while(const Node& node);
  void write_cond(const Node& node);

  const Graph& symbols_;
  Writer* const outer_ = nullptr;
  const ModelPurpose& purpose_;
  int count_ = 0;
  std::unordered_map<std::uint64_t, std::string> names_, scalars_, sizes_;
};

}  // namespace weft::onnx
