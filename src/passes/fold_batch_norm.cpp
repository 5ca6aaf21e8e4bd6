#include "passes/fold_batch_norm.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "ir/builder.hpp"

namespace weft {
namespace {

// By node, whether it is a constant input or made of such alone, by what a kernel does once for many calls.
std::vector<std::uint8_t> find_constants(const Graph& graph, std::span<const int> inputs) {
  std::vector<std::uint8_t> constant(graph.nodes.size());
  for (const int input : inputs) {
    const std::uint32_t number = graph.number(graph.inputs[static_cast<std::size_t>(input)]);
    if (number != NodeNumbers::none) constant[number] = true;
  }
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    if (node.op == Op::constant || node.op == Op::data)
      constant[i] = true;
    else if (is_pointwise(node.op) || is_view(node.op))
      constant[i] =
          std::ranges::all_of(node.inputs(), [&](const Tensor& each) { return constant[graph.number(each)]; });
  }
  return constant;
}

// A value that repeats one number a channel, as [channels]; undefined where it does not. `varies`: not the same number
// for all channels.
Tensor of_channels(const Builder& build, const Tensor& value, int axis, bool& varies) {
  const Node& node = *value.node();
  const Dim channels = node.type.shape[axis];
  Type type = node.type;
  type.shape = Shape::of(channels);
  varies = false;
  if (node.op == Op::constant) return build.constant(node.attributes<Constant>(), type);
  const Tensor base = node.op == Op::expand ? node.input(0) : value;
  const Shape& shape = type_of(base).shape;
  const Dim one = 1;
  const int missing = node.type.shape.rank() - shape.rank();  // an expansion may add axes before the others
  for (int i = 0; i < shape.rank(); ++i)
    if (!shape[i].same(one) && (i + missing != axis || !shape[i].same(channels))) return {};
  varies = axis >= missing && !shape[axis - missing].same(one);
  return build.expand(build.reshape(base, Shape::of(varies ? channels : one)), type.shape);
}

// What becomes of a channel of the value before: it is multiplied, and something is added. Undefined: by 1, 0. In the
// dtype that the norm computes in.
struct Affine {
  Tensor scale, shift;
  bool varies = false;  // by a factor of its own for each channel

  // Continues with a node that reads the value as its operand `at`. False where that is nothing of the kind.
  bool add(const Node& node, std::size_t at, int axis) {
    const bool multiplies = node.op == Op::mul, divides = node.op == Op::div && at == 0;
    if (!multiplies && !divides && node.op != Op::add && !(node.op == Op::sub && at == 0)) return false;
    const Builder build(node);
    bool varies_here;
    const Tensor number = of_channels(build, node.input(1 - at), axis, varies_here);
    if (!number.defined()) return false;
    const auto with = [&](const Tensor& value, double neutral) {
      return build.make(
          node.op,
          {value.defined() ? value : build.constant(Constant::number(node.type.dtype, neutral), type_of(number)),
           number});
    };
    if (multiplies || divides) {
      scale = multiplies && !scale.defined() ? number : with(scale, 1);
      if (shift.defined()) shift = with(shift, 0);
      varies |= varies_here;
    } else {
      shift = node.op == Op::add && !shift.defined() ? number : with(shift, -0.0);
    }
    return true;
  }
};

// Which operand is the weights and which of its axes the channels of the result's axis are; undefined: no product.
struct Weights {
  std::size_t operand;
  int axis, channels;
};
std::optional<Weights> weights_of(const Node& node, const Graph& graph, const std::vector<std::uint8_t>& constant) {
  const DType dtype = node.type.dtype;
  if (dtype != DType::f32 && dtype != DType::f64 && dtype != DType::f16 && dtype != DType::bf16) return std::nullopt;
  const auto is_constant = [&](std::size_t i) {
    return type_of(node.input(i)).dtype == dtype && constant[graph.number(node.input(i))];
  };
  if (node.op == Op::convolution && is_constant(1)) return Weights{1, 0, 1};
  if (node.op == Op::matmul && node.type.shape.rank() == 2 && is_constant(1)) return Weights{1, 1, 1};
  return std::nullopt;
}

class Folding {
 public:
  Folding(const Graph& graph, std::span<const int> inputs)
      : graph_(graph), constant_(find_constants(graph, inputs)), readers_(graph.nodes.size()) {
    for (const Tensor& value : graph.nodes)
      for (const Tensor& operand : value.node()->inputs()) {
        Reader& reader = readers_[graph.number(operand)];
        ++reader.count;
        reader.node = value.node();
      }
    for (const Tensor& output : graph.outputs) readers_[graph.number(output)].count += 2;  // it is needed itself
  }

  Graph run() {
    for (const Tensor& value : graph_.nodes) find(*value.node());
    if (chains_.empty()) return graph_;
    std::unordered_map<const Node*, Tensor> inputs;  // by product, what is multiplied by the weights
    return rewrite(graph_, [&](const Node& node, std::span<const Tensor> operands) -> Rewritten {
      if (const auto product = products_.find(&node); product != products_.end())
        inputs[&node] = operands[1 - product->second.operand];
      const auto chain = chains_.find(&node);
      if (chain == chains_.end()) return {};
      const Node& product = *chain->second.product;
      return folded(node, product, products_.at(&product), chain->second.affine, inputs.at(&product));
    });
  }

 private:
  struct Reader {
    int count = 0;
    const Node* node = nullptr;
  };
  struct Chain {
    const Node* product;
    Affine affine;
  };

  void find(const Node& product) {
    const std::optional<Weights> weights = weights_of(product, graph_, constant_);
    if (!weights) return;
    Type type = product.type;
    type.dtype = computed_in(type.dtype);
    Affine affine;
    const Node* last = &product;
    for (Reader next = readers_[graph_.number(product)]; next.count == 1; next = readers_[graph_.number(*last)]) {
      const Node& node = *next.node;
      const bool is_widened = last == &product && node.op == Op::cast && !node.type.same(product.type);
      if (is_widened && node.type.same(type)) {
        last = &node;
        continue;
      }
      const std::size_t at = node.input(0).node() == last ? 0 : 1;
      const bool binary = is_pointwise(node.op) && node.operand_count == 2 && node.type.same(type);
      if (!binary || !constant_[graph_.number(node.input(1 - at))]) break;
      if (!affine.add(node, at, weights->channels)) break;
      last = &node;
    }
    if (!affine.varies) return;
    products_.emplace(&product, *weights);
    chains_.emplace(last, Chain{&product, std::move(affine)});
  }

  static Tensor folded(const Node& last, const Node& product, const Weights& where, const Affine& affine,
                       const Tensor& input) {
    const Builder build(product);
    const Tensor& weights = product.input(where.operand);
    const auto along = [](const Builder& build, const Tensor& value, int axis, const Shape& to) {
      Shape thin;
      for (int i = 0; i < to.rank(); ++i) thin.push_back(i == axis ? to[i] : Dim(1));
      return build.expand(build.reshape(value, thin), to);
    };
    const DType wide = type_of(affine.scale).dtype;
    const Tensor scale = along(build, affine.scale, where.axis, type_of(weights).shape);
    Tensor operands[] = {input, input};
    operands[where.operand] = build.cast(build.mul(build.cast(weights, wide), scale), type_of(weights).dtype);
    const Builder after(last);
    const Tensor result = after.cast(build.make(product.op, operands, product.attributes(), product.type), wide);
    if (!affine.shift.defined()) return result;
    return after.add(result, along(after, affine.shift, where.channels, product.type.shape));
  }

  const Graph& graph_;
  const std::vector<std::uint8_t> constant_;
  std::vector<Reader> readers_;  // by node
  std::unordered_map<const Node*, Weights> products_;
  std::unordered_map<const Node*, Chain> chains_;  // by the last node
};

}  // namespace

Graph fold_batch_norm(const Graph& graph, const PassContext& context) {
  if (context.constant_inputs.empty()) return graph;
  return Folding(graph, context.constant_inputs).run();
}

}  // namespace weft
