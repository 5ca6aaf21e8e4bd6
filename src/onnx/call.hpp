// A node of a graph that is run: what its operator reads and gives. Values of few integers, sizes mostly, are known on
// the host, as Dims, so that what a graph computes from shapes stays sizes. In: values by name. Out: values.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/fail.hpp"
#include "onnx/file.hpp"
#include "weft/ops.hpp"

namespace weft::onnx {

struct Program;

// Elements that are known on the host, row-major. Of integers and bool `integers` has them, which may be symbolic, of
// floats `numbers`. An i64 that no Dim holds is cut in `integers`; `exact` has the bytes of all elements then.
struct KnownElements {
  DType dtype = DType::i64;
  std::vector<std::int64_t> sizes = {};
  std::vector<Dim> integers = {};
  std::vector<double> numbers = {};
  std::string exact = {};
  std::size_t count() const { return is_floating(dtype) ? numbers.size() : integers.size(); }
  bool symbolic() const;
};
// Larger values are tensors alone.
inline constexpr std::int64_t most_known_elements = 4096;

// A value of a graph: a tensor, or elements on the host, of which a tensor is made where one is wanted.
class Value {
 public:
  Value() = default;
  Value(Tensor tensor) : tensor_(std::move(tensor)) {}
  Value(KnownElements host) : host_(std::make_shared<const KnownElements>(std::move(host))) {}
  bool defined() const { return host_ || tensor_.defined(); }
  const KnownElements* host() const { return host_.get(); }
  Tensor tensor(Device device, Loc loc) const;
  DType dtype() const { return host_ ? host_->dtype : tensor_.dtype(); }
  int rank() const { return host_ ? static_cast<int>(host_->sizes.size()) : tensor_.rank(); }
  Shape shape() const;

 private:
  Tensor tensor_;
  std::shared_ptr<const KnownElements> host_;
};

// The elements of a constant, on the host. Throws Error where it is of a type that is no dtype.
KnownElements known_elements(const TensorData& data, Loc loc);
KnownElements known_integers(const std::vector<std::int64_t>& elements, std::vector<std::int64_t> sizes);
// It as a tensor: part of the graph, where one is traced. Throws as known_elements does.
Tensor constant_of(const TensorData& data, Device device, Loc loc);
// Those of a computed tensor that is not too large.
KnownElements read_elements(const Tensor& tensor, Loc loc);

// Values by name, in a graph inside others.
class Scope {
 public:
  explicit Scope(const Scope* outer = nullptr) : outer_(outer) {}
  void set(const std::string& name, Value value);
  void drop(const std::string& name) { values_.erase(name); }  // not of an outer scope
  const Value* find(const std::string& name) const;

 private:
  std::map<std::string, Value, std::less<>> values_;
  const Scope* outer_;
};

class NodeCall {
 public:
  NodeCall(const Program& program, const NodeData& node, std::int64_t version, std::vector<Value> inputs,
           const Scope& scope, Device device, Loc loc)
      : inputs_(std::move(inputs)),
        program_(program),
        node_(node),
        version_(version),
        scope_(scope),
        device_(device),
        loc_(loc) {}

  const NodeData& node() const { return node_; }
  std::int64_t version() const { return version_; }  // of the operator set
  Loc loc() const { return loc_; }
  Device device() const { return device_; }
  template <class... Parts>
  [[noreturn]] void refuse(const Parts&... parts) const {
    fail(node_.operation, loc_, node_.name.empty() ? "" : "node " + node_.name + ": ", parts...);
  }

  // ---- inputs -------------------------------------------------------------------------------------------------------
  std::size_t count() const { return inputs_.size(); }
  bool has(std::size_t i) const { return i < inputs_.size() && inputs_[i].defined(); }
  const Value& value(std::size_t i) const;  // throws where it is left out
  Tensor tensor(std::size_t i = 0) const { return value(i).tensor(device_, loc_); }
  Tensor optional(std::size_t i) const { return has(i) ? tensor(i) : Tensor(); }
  std::vector<Tensor> tensors(std::size_t first = 0) const;
  // The elements, read from the tensor where they are not known: a decision, in a compiled function.
  std::vector<Dim> sizes(std::size_t i) const;
  std::vector<std::int64_t> integers(std::size_t i) const;
  std::vector<double> numbers(std::size_t i) const;
  std::int64_t integer_at(std::size_t i) const;
  double number_at(std::size_t i) const;

  // ---- attributes ---------------------------------------------------------------------------------------------------
  bool has(std::string_view name) const { return node_.find(name) != nullptr; }
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  std::int64_t positive(std::string_view name, std::int64_t otherwise) const;  // throws where it is not
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(std::string_view name, std::vector<std::int64_t> otherwise = {}) const;
  std::vector<double> numbers(std::string_view name) const;
  // What older operator sets have as an attribute and newer ones as an input.
  std::optional<std::vector<std::int64_t>> integers(std::string_view name, std::size_t input) const;
  int axis(std::string_view name, std::int64_t otherwise, int rank) const;  // from 0 on; throws out of range
  int checked_axis(std::int64_t axis, int rank) const;

  // ---- outputs ------------------------------------------------------------------------------------------------------
  bool wants(std::size_t i) const { return i < node_.outputs.size() && !node_.outputs[i].empty(); }
  void give(Value value);  // throws where it is known elements of more axes than a tensor has
  std::vector<Value> take() { return std::move(outputs_); }

  // A graph that the node has, run with these inputs.
  std::vector<Value> run(std::string_view attribute, std::vector<Value> inputs) const;
  const GraphData& graph(std::string_view attribute) const;

  std::vector<Value> inputs_;

 private:
  const Program& program_;
  const NodeData& node_;
  const std::int64_t version_;
  const Scope& scope_;
  const Device device_;
  const Loc loc_;
  std::vector<Value> outputs_;
};

// An operator: from which operator set to which this function does it. `host` and `state` have a bit for each input:
// those that are wanted on the host, so that an initializer of them is no parameter, and those that are state.
struct OperatorRow {
  std::string_view name;
  int since, until;
  void (*run)(NodeCall& call);
  unsigned host = 0, state = 0, flags = 0;
};
inline constexpr unsigned not_folded = 1;  // it draws numbers, or has graphs: it is no constant
inline constexpr int latest = 24;
// All rows, in no order.
std::span<const OperatorRow> basic_operators();
std::span<const OperatorRow> shape_operators();
std::span<const OperatorRow> layer_operators();
std::span<const OperatorRow> image_operators();
std::span<const OperatorRow> control_operators();
std::span<const OperatorRow> other_operators();
const OperatorRow* find_operator(std::string_view name, std::int64_t version);

// The node over few integers that are known on the host, symbolic sizes among them; false where it is not such a node.
bool run_on_host(NodeCall& call);
// In a trace: a node of constants alone, computed now; false where it is none, or too large.
bool fold(NodeCall& call, const OperatorRow& row);

}  // namespace weft::onnx
