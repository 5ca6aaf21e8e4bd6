#include "passes/align.hpp"

#include <map>
#include <vector>

#include "ir/builder.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

bool swaps_last_two(const Node& node) {
  const auto rank = static_cast<std::size_t>(node.type.shape.rank());
  if (node.op != Op::permute || rank < 2) return false;
  const AxisList& axes = node.attributes<Permute>().axes;
  return axes[rank - 1] == rank - 2 && axes[rank - 2] == rank - 1;
}

class Aligner {
 public:
  explicit Aligner(const PassContext& context) : context_(context) {}

  Tensor replace(const Node& node, std::span<const Tensor> operands) {
    if (node.op != Op::matmul) return {};
    const std::int64_t multiple = context_.size_multiple(node);
    if (multiple == 1) return {};
    const Tensor &a = operands[0], &b = operands[1];
    const int rank = node.type.shape.rank(), row = rank - 2, column = rank - 1;
    const Dim m = node.type.shape[row], n = node.type.shape[column], k = type_of(a).shape[column];
    if (!m.is_constant() || !n.is_constant() || !k.is_constant()) return {};
    // Memory is read along k of one that lies as it is, and along m or n of one that is transposed.
    const bool a_is_turned = swaps_last_two(*a.node()), b_is_turned = swaps_last_two(*b.node());
    const bool pads_m = a_is_turned && m.constant() % multiple, pads_n = n.constant() % multiple,
               pads_k = (!a_is_turned || b_is_turned) && k.constant() % multiple;
    if (!(pads_m || pads_n || pads_k) || !pays(m.constant(), n.constant(), k.constant())) return {};
    const Builder build(node);
    Tensor left = a, right = b;
    if (pads_k) left = padded(left, column, multiple), right = padded(right, row, multiple);
    if (pads_m) left = padded(left, row, multiple);
    if (pads_n) right = padded(right, column, multiple);
    Type type = node.type;
    type.shape[row] = type_of(left).shape[row], type.shape[column] = type_of(right).shape[column];
    Tensor result = build.make(Op::matmul, {left, right}, {}, type);
    if (pads_m) result = build.slice(result, Slice{static_cast<std::uint8_t>(row)}, m);
    if (pads_n) result = build.slice(result, Slice{static_cast<std::uint8_t>(column)}, n);
    return result;
  }

 private:
  // Against a copy of each value, of 2 bytes an element, at 1.5e12 elements a second: a product takes about five times
  // as long as at 3e14 multiplications a second. A launch takes a few microseconds.
  static bool pays(std::int64_t m, std::int64_t n, std::int64_t k) {
    const double x = static_cast<double>(m), y = static_cast<double>(n), z = static_cast<double>(k);
    return 5 * x * y * z / 3e14 > (x * y + y * z + z * x) / 0.75e12 + 1e-5;
  }

  // With zeros up to a multiple, below permutations and expansions, where a kernel can write it.
  Tensor padded(const Tensor& value, int axis, std::int64_t multiple) {
    const Node& node = *value.node();
    if (node.op == Op::permute) {
      const AxisList& axes = node.attributes<Permute>().axes;
      return Builder(node).permute(padded(node.input(0), axes[static_cast<std::size_t>(axis)], multiple), axes);
    }
    if (node.op == Op::expand && type_of(node.input(0)).shape[axis].same(node.type.shape[axis])) {
      const Tensor below = padded(node.input(0), axis, multiple);
      Shape shape = node.type.shape;
      shape[axis] = type_of(below).shape[axis];
      return Builder(node).expand(below, shape);
    }
    Tensor& known = padded_[{value.node(), axis}];
    if (known.defined()) return known;
    kept_.push_back(value);
    Type zeros = node.type;
    zeros.shape[axis] = multiple - zeros.shape[axis].constant() % multiple;
    const Builder build(node);
    const Tensor none = build.constant(Constant::number(zeros.dtype, 0), zeros);
    return known = build.make(Op::concat, {value, none}, Along{static_cast<std::uint8_t>(axis)});
  }

  const PassContext& context_;
  std::map<std::pair<const Node*, int>, Tensor> padded_;  // by value and axis
  std::vector<Tensor> kept_;                              // no other node takes the place of these
};

}  // namespace

Graph align_products(const Graph& graph, const PassContext& context) {
  if (!context.size_multiple) return graph;
  Aligner aligner(context);
  const Graph aligned = rewrite(
      graph, [&](const Node& node, std::span<const Tensor> operands) { return aligner.replace(node, operands); });
  return in_bodies(aligned, align_products, context);
}

}  // namespace weft
