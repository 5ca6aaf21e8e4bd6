#include "schedule/channels_last.hpp"

#include <algorithm>
#include <unordered_map>

#include "ir/builder.hpp"
#include "ir/composites.hpp"
#include "schedule/group.hpp"

namespace weft {

bool is_computed_by_kernel(const Node& node) {
  if (is_further_result(node)) return false;
  switch (info(node.op).kind) {
    case OpKind::pointwise:
    case OpKind::cast:
    case OpKind::reduce:
    case OpKind::cumulative:
    case OpKind::random: return true;
    case OpKind::assemble: return node.op == Op::pad;
    case OpKind::index: return node.op == Op::gather;
    default: return false;
  }
}

bool is_library_step(const Node& node) {
  const OpKind kind = info(node.op).kind;
  return kind == OpKind::contraction || kind == OpKind::convolution || kind == OpKind::order ||
         kind == OpKind::factorization || kind == OpKind::collective ||
         (kind == OpKind::index && node.op != Op::gather) || kind == OpKind::region;
}

std::vector<Dim> channels_last_strides(const Shape& shape) {
  const Dim row = shape[3] * shape[1];
  return {shape[2] * row, Dim(1), row, shape[1]};
}

namespace {

constexpr int rank_of_images = 4;

bool is_gradient(const Node& node) {
  return node.op == Op::convolution_input_gradient || node.op == Op::convolution_weight_gradient;
}
bool has_groups(const Node& node) {
  if (info(node.op).kind == OpKind::convolution) return node.attributes<Convolution>().groups > 1;
  return node.op == Op::call && &node.attributes().type() == &attribute_type<ConvolutionCall> &&
         node.attributes().as<ConvolutionCall>().groups > 1;
}

class Images {
 public:
  Images(const Graph& graph, const Providers& providers, Device device)
      : graph_(graph), gains_(graph.nodes.size(), false), must_be_in_order_(graph.nodes.size(), false) {
    constexpr int fewest = 2;  // else both ends are copied for one
    int count = 0;
    // First those whose answer may be the last: a library takes milliseconds for each.
    for (const bool asks_of_slow : {true, false})
      for (const Tensor& value : graph.nodes) {
        const Node& node = *value.node();
        const bool may_be_slower = has_groups(node) || is_gradient(node);
        if (may_be_slower != asks_of_slow) continue;
        const bool gains = node.type.shape.rank() == rank_of_images && providers.gains_with_channels_last(node, device);
        if (may_be_slower && !gains) return;
        gains_[graph.number(value)] = gains;
        count += gains;
      }
    if (count < fewest) return;
    any_ = true;
    const auto keep = [&](Tensor value) {
      while (is_view(value.node()->op)) value = value.node()->input(0);
      must_be_in_order_[graph.number(value)] = true;
    };
    for (const Tensor& output : graph.outputs) keep(output);
    for (const Tensor& value : graph.nodes) {
      const Node& node = *value.node();
      if (!gains(node) && (is_library_step(node) || node.op == Op::call || is_effect(node)))
        for (const Tensor& operand : node.inputs()) keep(operand);
    }
  }

  bool any() const { return any_; }
  bool gains(const Node& node) const { return any_ && gains_[graph_.number(node)]; }
  bool must_be_in_order(const Node& node) const { return must_be_in_order_[graph_.number(node)]; }
  bool can_lie_so(const Node& node) const {
    return node.type.shape.rank() == rank_of_images && !must_be_in_order(node) &&
           (is_computed_by_kernel(node) || gains(node));
  }

 private:
  const Graph& graph_;
  bool any_ = false;
  std::vector<bool> gains_, must_be_in_order_;  // by node
};

// One element of each channel, or one channel: both orders are the same.
bool lies_either_way(const Shape& shape) {
  return shape[1].same(Dim(1)) || (shape[2].same(Dim(1)) && shape[3].same(Dim(1)));
}

Tensor copy_of(const Node& place, const Tensor& value) {
  return Builder(place).make(Op::cast, {value}, {}, type_of(value));
}

}  // namespace

Graph with_channels_last(const Graph& graph, const Providers& providers, Device device) {
  const Images images(graph, providers, device);
  if (!images.any()) return graph;
  std::unordered_map<const Node*, Tensor> copies;  // by what is copied
  const auto read_by_kernels = [&](const Node& node, std::span<const Tensor> given) -> Rewritten {
    std::vector<Tensor> operands(given.begin(), given.end());
    bool changed = false;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (const auto found = copies.find(node.input(i).node()); found != copies.end())
        operands[i] = found->second, changed = true;
    return changed ? Rewritten(Builder::copy(node, operands)) : Rewritten();
  };
  return rewrite(graph, [&](const Node& node, std::span<const Tensor> given) -> Rewritten {
    if (!images.gains(node))
      return info(node.op).kind == OpKind::pointwise ? read_by_kernels(node, given) : Rewritten();
    std::vector<Tensor> operands(given.begin(), given.end());
    bool changed = false;
    for (const std::size_t i : {0, 1}) {  // images and weights
      const Node& operand = *node.input(i).node();
      if (images.can_lie_so(operand)) continue;
      const bool is_in_order = info(operand.op).kind == OpKind::leaf && !operand.layout;
      if (is_in_order && lies_either_way(operand.type.shape)) continue;
      Tensor& copy = copies[&operand];
      if (!copy.defined()) copy = copy_of(node, operands[i]);
      operands[i] = copy;
      changed = true;
    }
    const bool result = images.must_be_in_order(node);
    if (!changed && !result) return {};
    const Tensor made = Builder::copy(node, operands);
    return result ? copy_of(node, made) : made;
  });
}

std::vector<bool> channels_last_values(const Graph& graph, const Providers& providers, Device device) {
  std::vector<bool> last(graph.nodes.size(), false);
  const Images images(graph, providers, device);
  if (!images.any()) return last;
  for (const Tensor& value : graph.nodes)
    if (images.gains(*value.node()))
      for (const std::size_t i : {0, 1}) {
        const Node& operand = *value.node()->input(i).node();
        last[graph.number(operand)] = images.can_lie_so(operand);
      }
  for (const Tensor& value : graph.nodes) {
    const Node& node = *value.node();
    const OpKind kind = info(node.op).kind;
    if (images.gains(node)) last[graph.number(value)] = true;
    const bool follows = kind == OpKind::pointwise || kind == OpKind::cast || node.op == Op::pad;
    if (!follows || !images.can_lie_so(node)) continue;
    for (const Tensor& operand : node.inputs()) {
      const Shape& shape = type_of(operand).shape;
      Tensor base = operand;
      while (base.node()->op == Op::slice) base = base.node()->input(0);
      if (last[graph.number(base)] && (node.op == Op::pad || shape.same(node.type.shape)))
        last[graph.number(value)] = true;
    }
  }
  return last;
}

}  // namespace weft
