#include "ir/builder.hpp"

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "ir/factorization.hpp"
#include "ir/infer.hpp"

namespace weft {

static void set_further_types(Node& node, const std::vector<Type>& all) {
  set_more_results(node, std::span(all).subspan(1));
}

Tensor Builder::make(Op op, std::span<const Tensor> operands, const Attributes& attributes, const Type& wanted) const {
  for (const Tensor& operand : operands) {
    const bool first = operand.output() == 0;  // every node has one
    WEFT_CHECK(operand.defined() && (first || operand.output() < operand.node()->output_count), "an operand of ",
               info(op).name);
  }
  Tensor made = make_node(op, operands, attributes, infer(op, operands, attributes, wanted, loc_), loc_);
  Node* const node = made.node();
  if (info(op).kind == OpKind::factorization)
    set_further_types(*node, infer_factorization(op, operands, attributes, loc_));
  node->scope = scope_;
  node->trace = trace_;
  node->recomputation = recomputation_;
  node->region = region_;
  return made;
}

Tensor Builder::input(std::size_t slot, const Type& type) const {
  return Builder::make(Op::input, {}, Parameter{static_cast<std::int64_t>(slot)}, type);
}

Tensor Builder::copy(const Node& node, std::span<const Tensor> operands) {
  Tensor copy = make_node(node.op, operands, node.attributes(), node.type, node.loc);
  Node* made = copy.node();
  made->scope = node.scope;
  made->trace = node.trace;
  made->recomputation = node.recomputation;
  made->region = node.region;
  made->output_count = node.output_count;
  if (node.more)
    made->more = std::make_unique<Node::More>(
        Node::More{node.more->types, {}, node.more->bodies, node.more->callee, node.more->extends});
  made->definition = node.definition;
  if (node.op == Op::data && node.storage) {
    retain(made->storage = node.storage);
    if (node.layout) made->layout = new Layout(*node.layout);
  }
  return copy;
}

Tensor Builder::cast(const Tensor& value, DType dtype) const {
  if (type_of(value).dtype == dtype) return value;
  return make(Op::cast, {value}, {}, Type{dtype, false, {}, {}});
}

static Type shaped(const Tensor& value, const Shape& shape) {
  Type type = type_of(value);
  type.shape = shape;
  return type;
}
Tensor Builder::reshape(const Tensor& value, const Shape& shape) const {
  return type_of(value).shape.same(shape) ? value : make(Op::reshape, {value}, {}, shaped(value, shape));
}
Tensor Builder::expand(const Tensor& value, const Shape& shape) const {
  return type_of(value).shape.same(shape) ? value : make(Op::expand, {value}, {}, shaped(value, shape));
}
Tensor Builder::permute(const Tensor& value, const AxisList& axes) const {
  return make(Op::permute, {value}, Permute{axes});
}
Tensor Builder::slice(const Tensor& value, const Slice& which, Dim count) const {
  Shape shape = type_of(value).shape;
  shape[which.axis] = count;
  return make(Op::slice, {value}, which, shaped(value, shape));
}
Tensor Builder::sum(const Tensor& value, AxisSet axes) const { return make(Op::sum, {value}, Reduce{axes}); }

void set_more_results(Node& node, std::span<const Type> types) {
  WEFT_CHECK(types.size() < UINT16_MAX, info(node.op).name, " has ", types.size() + 1, " results");
  node.output_count = static_cast<std::uint16_t>(types.size() + 1);
  if (!types.empty()) node.make_more().types.assign(types.begin(), types.end());
}

}  // namespace weft
