#include "batching/batch.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "ir/any_node.hpp"
#include "record/place_guard.hpp"
#include "record/record_body.hpp"

namespace weft {
namespace {

constexpr RecordingBuilder build;

// What is recorded carries the line, the composite and the region of the node that is batched; where that has no line,
// since it is of a callee's body, those of the call. Nothing is cast by autocast: the node's operands have been.
class PlaceOf {
 public:
  explicit PlaceOf(const Node& node) {
    recorder().autocast = DType::f32;
    recorder().region |= node.region & offload_mark;
    if (node.loc.file) before_.enter(node);
  }

 private:
  const PlaceGuard before_;
};

void require_axis(const Node& node, const Type& type) {
  if (type.shape.rank() == max_rank)
    fail("vmap", outermost(node.loc), name_of(node), " has a tensor of ", max_rank,
         " axes for one example, and none is left for all of them: ", to_string(type));
}

}  // namespace

bool is_of_each(const Node& node, const Batcher& batcher) {
  const bool may_fail = is_effect(node) || info(node.op).kind == OpKind::index ||
                        std::ranges::any_of(node.bodies(), [](const auto& body) { return has_positions(*body); });
  if (batcher.active().defined() && may_fail) return true;
  if (batcher.randomness() == Randomness::same) return false;
  return node.op == Op::random_bits ||
         (is_loop(node.op) && std::ranges::any_of(node.bodies(), [](const auto& body) { return draws(*body); }));
}

Shape Batcher::shape(const Shape& of_one) const {
  Shape shape = Shape::of(size_);
  for (const Dim each : of_one) shape.push_back(each);
  return shape;
}
Type Batcher::type(Type of_one) const {
  of_one.shape = shape(of_one.shape);
  return of_one;
}
Tensor Batcher::all(const Batched& value) const {
  if (value.differs) return value.value;
  const Node& node = *value.value.node();
  const Type type = this->type(type_of(value.value));
  if (node.op == Op::constant) return record(Op::constant, {}, node.attributes(), type, node.loc);
  return build.expand(value.value, type.shape);
}

void check_now(const Tensor& token, Loc loc) {
  if (!recorder().trace()) token.eval(loc);
}

Tensor Batcher::spread(const Tensor& of_each, const Shape& shape) const {
  Shape ones = Shape::of(size_);
  for (int axis = 1; axis < shape.rank(); ++axis) ones.push_back(1);
  return build.expand(build.reshape(of_each, ones), shape);
}

bool draws(const Graph& graph) {
  return any_node(graph, [](const Node& node) { return node.op == Op::random_bits; });
}
bool has_positions(const Graph& graph) {
  return any_node(graph, [](const Node& node) { return info(node.op).kind == OpKind::index; });
}

bool can_batch(const Graph& graph) {
  return std::ranges::all_of(graph.nodes, [](const Tensor& value) {
    const Node& node = *value.node();
    const auto fits = [](const Type& type) { return type.shape.rank() < max_rank; };
    return node.op != Op::host_call && fits(node.type) && std::ranges::all_of(node.more_types(), fits) &&
           (!node.callee() || can_batch(node.callee()->body)) &&
           std::ranges::all_of(node.bodies(), [](const auto& body) { return can_batch(*body); });
  });
}

std::vector<Batched> Batcher::run(const Graph& graph, std::span<const Batched> operands) const {
  std::vector<std::vector<Batched>> mapped(graph.nodes.size());
  const auto map = [&](const Tensor& value) -> const Batched& { return mapped[graph.number(value)][value.output()]; };
  std::vector<Batched> given;
  std::vector<Tensor> values;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    if (node.op == Op::input) {
      mapped[i] = {operands[static_cast<std::size_t>(node.attributes<Parameter>().slot)]};
      continue;
    }
    given.clear(), values.clear();
    for (const Tensor& operand : node.inputs()) given.push_back(map(operand)), values.push_back(given.back().value);
    const PlaceOf place(node);
    const bool differs = std::ranges::any_of(given, &Batched::differs);
    if (!differs && !is_of_each(node, *this)) {
      for (Tensor& result : results_of(record_node(node, values))) mapped[i].push_back({std::move(result), false});
      if (node.op == Op::check) check_now(mapped[i][0].value, node.loc);
      continue;
    }
    for (std::size_t k = 0; k < given.size(); ++k)
      if (given[k].differs) require_axis(node, type_of(node.input(k)));
    require_axis(node, node.type);
    for (const Type& type : node.more_types()) require_axis(node, type);
    mapped[i] = batching_rule(node.op)({node, given, *this});
    for (unsigned k = 0; k < mapped[i].size(); ++k) {
      Batched& result = mapped[i][k];
      if (!result.differs) continue;
      const Type& one = type_of(Tensor(graph.nodes[i].node(), k));
      WEFT_CHECK(type_of(result.value).shape.rank() == one.shape.rank() + 1, "the batch of ", info(node.op).name);
      result.value = build.expand(result.value, shape(one.shape));  // the same sizes, said in the same way
    }
  }
  std::vector<Batched> outputs;
  for (const Tensor& output : graph.outputs) outputs.push_back(map(output));
  return outputs;
}

}  // namespace weft
