// The node: the vocabulary of everything below. A graph value is (node, output index), held by weft::Tensor.
// In: a primitive of weft/ops.def, operands, attributes. Out: a typed value. Invariants: an operand was recorded before
// its user (smaller sequence number). Once a graph holds a node, or a second handle does, it does not change any more,
// but for its value: evaluation gives a node its storage and may sever its operands. What is known of a node in one
// graph or walk is kept beside it, by numbers (node_numbers.hpp).
#pragma once
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dim_expression.hpp"
#include "ir/attributes.hpp"
#include "ir/dtype.hpp"
#include "weft/detail/op.hpp"
#include "weft/tensor.hpp"

namespace weft {

// The type of one result.
struct Type {
  DType dtype = DType::f32;
  bool weak = false;  // a literal or a Scalar: takes the other operand's dtype
  Device device = {};
  Shape shape = {};
  bool same(const Type& other) const {
    return dtype == other.dtype && weak == other.weak && device == other.device && shape.same(other.shape);
  }
};
std::string to_string(const Shape& shape);  // [64,128]
std::string to_string(Device device);       // cpu, cuda:0
std::string to_string(const Type& type);    // f32[64,128]; a trailing ' marks weak

// Memory that holds a value: shared by the handles and views that look at it. Reference-counted, so that a count of one
// proves that nobody else can see it (donation).
struct Storage;

// How a computed value lies in its storage. `strides` are in elements; contiguous is row-major without gaps.
struct Layout {
  std::int64_t offset = 0;
  std::int64_t strides[max_rank] = {};
};

struct Graph;
struct Callee;
struct ElementwiseDefinition;

struct Node : detail::NodeHeader {
  Op op = Op::data;
  bool severed = false;         // evaluated, operands dropped: not differentiable any more
  bool has_size_marks = false;  // in size_marks.hpp
  std::uint8_t owner = 0;       // the thread that recorded it, by its number: EvaluationLock
  std::uint16_t output_count = 1;
  std::uint32_t operand_count = 0;
  std::uint32_t trace = 0;  // the trace that recorded it; 0 outside compile
  std::uint32_t scope = 0;  // the composite that recorded it (interned text); 0 for none
  // Which recomputation it is part of; 0: none. A value of one is computed for it, though another may be the same.
  std::uint32_t recomputation = 0;  // checkpoint sets it
  std::uint32_t region = 0;   // the use of a region that recorded it (interned text, name#3); 0: none
  std::uint32_t pending = 0;  // about how many unevaluated nodes hang below; 0 once computed
  // Order of recording: increasing in a thread, and from operands to what is made of them. 0: before everything.
  std::uint64_t sequence = 0;
  Loc loc;                     // the user's line
  Type type;                   // of output 0
  Attributes attributes_;      // read as attributes<Slice>()
  Tensor* operands = nullptr;  // operand_count of them; `few` when they fit
  Tensor few[3];
  // Computed value of output 0: null until evaluated.
  Storage* storage = nullptr;
  Layout* layout = nullptr;                           // null: contiguous at offset 0
  const ElementwiseDefinition* definition = nullptr;  // call: the scalar expression that the body is
  // What few nodes have.
  struct More {
    std::vector<Type> types;         // of outputs 1, 2, ...
    std::vector<Storage*> storages;  // of outputs 1, 2, ...: empty until evaluated
    std::vector<std::shared_ptr<const Graph>> bodies;
    std::shared_ptr<const Callee> callee;  // call: whose body it is, where calls share it
    // scan: a body whose results its own begin with, over the same inputs (passes/loops.hpp).
    std::shared_ptr<const Graph> extends = {};
  };
  std::unique_ptr<More> more;

  More& make_more() { return more ? *more : *(more = std::make_unique<More>()); }
  std::span<const Tensor> inputs() const { return {operands, operand_count}; }
  const Tensor& input(std::size_t i) const { return operands[i]; }
  const Attributes& attributes() const { return attributes_; }
  template <AttributeStruct T>
  const T& attributes() const {
    return attributes_.as<T>();
  }
  using Types = std::span<const Type>;
  Types more_types() const { return more ? Types(more->types) : Types(); }
  using Bodies = std::span<const std::shared_ptr<const Graph>>;
  Bodies bodies() const { return more ? Bodies(more->bodies) : Bodies(); }
  const Callee* callee() const { return more ? more->callee.get() : nullptr; }
};

inline const Type& type_of(const Tensor& value) {
  return value.output() == 0 ? value.node()->type : value.node()->more->types[value.output() - 1];
}

// All results of a value's node.
std::vector<Tensor> results_of(const Tensor& value);

// Allocates a node from the thread's pool and links its operands. No checks: ir/builder.hpp makes nodes of
// graphs.
Tensor make_node(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& type, Loc loc);
void drop_operands(Node* node);
// A computed value whose storage the caller gives. It reads nothing, so it counts as recorded before everything:
// threads that make many share no counter.
Tensor make_computed(const Type& type, Loc loc);

// `f32[64], made at model.cpp:12`, without the place where it is not known.
std::string made_at(const Node& node);

// Interned text (composites' scopes, messages of checks). Id 0 is the empty text.
std::uint32_t intern_text(std::string_view text);
const std::string& interned_text(std::uint32_t id);

}  // namespace weft
