// From a product with a softmax upwards: each node on the way is a dropout, a number, a mask, a cast, or the product of
// queries and keys, where the way ends.
#include "fusions/attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string_view>

#include "fusions/causal.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "ir/match.hpp"
#include "nn/attention.hpp"
#include "trace/registry.hpp"
#include "weft/fusions.hpp"
#include "weft/nn/attention.hpp"

namespace weft {
namespace {

constexpr double hides = -1000;   // of a score or less: its power is 0 beside any other
constexpr double hidden = -1e20;  // added to a score, makes it the same as others that it is added to
constexpr int longest_way = 16;   // nodes from the softmax to the product
constexpr double infinity = std::numeric_limits<double>::infinity();

using Mask = AttentionByHand::Mask;
using Found = AttentionByHand;

bool is_float_cast(const Node& node) {
  return node.op == Op::cast && is_floating(node.type.dtype) && is_floating(type_of(node.input(0)).dtype);
}
// A product expands both of its operands, mostly to what they are.
bool is_same(const Node& node) { return node.op == Op::expand && node.type.shape.same(type_of(node.input(0)).shape); }
Tensor plain(Tensor value) {
  while (is_same(*value.node())) value = value.node()->input(0);
  return value;
}
// Before it was repeated, so that what is computed of a mask is not larger than the mask.
Tensor unexpanded(Tensor value) {
  while (value.node()->op == Op::expand) value = value.node()->input(0);
  return value;
}
std::optional<double> number(Tensor value) {
  while (value.node()->op == Op::expand || value.node()->op == Op::cast) value = value.node()->input(0);
  if (!is_uniform(value)) return {};
  return value.node()->attributes<Constant>().as_number(type_of(value).dtype);
}

// `node` as x times a positive number: x, and the number goes into `factor`. Undefined: it is nothing of the kind.
Tensor unscaled(const Node& node, double& factor) {
  // With a number that 16 bits do not hold it is a call, which computes in f32.
  const std::string_view name = node.op == Op::call ? name_of(node) : info(node.op).name;
  const bool divides = name == "div";
  if ((name != "mul" && !divides) || node.operand_count != 2) return {};
  for (const std::size_t at : {1, 0}) {
    const std::optional<double> by = number(node.input(at));
    if (!by || !(*by > 0) || !(*by < 1e30) || (divides && at == 0)) continue;
    factor = divides ? factor / *by : factor * *by;
    return node.input(1 - at);
  }
  return {};
}

// Whether `scores` come from a product; what is on the way goes into `found`.
bool find_scores(const Tensor& scores, Found& found, int left) {
  if (left == 0) return false;
  const Node& node = *scores.node();
  const auto goes_on = [&](const Tensor& next) { return find_scores(next, found, left - 1); };
  const auto with = [&](Mask::Kind kind, const Tensor& mask, const Tensor& next, double number = 0) {
    const Found before = found;
    found.masks.push_back({kind, mask, found.scale, number});
    if (goes_on(next)) return true;
    found = before;
    return false;
  };
  if (is_float_cast(node) || is_same(node)) return goes_on(node.input(0));
  if (const Tensor x = unscaled(node, found.scale); x.defined()) return goes_on(x);
  switch (node.op) {
    case Op::matmul: {
      const auto factor = [&](std::size_t at) {
        double by = 1;
        const Tensor given = node.input(at), x = unscaled(*plain(given).node(), by);
        if (!x.defined() || !type_of(x).same(type_of(given))) return given;
        found.scale *= by;
        return x;
      };
      found.query = factor(0), found.transposed_key = factor(1);
      return true;
    }
    case Op::where: {
      const std::optional<double> first = number(node.input(1)), second = number(node.input(2));
      const auto are_hidden = [&](const std::optional<double>& by) { return by && *by * found.scale <= hides; };
      if (are_hidden(second)) return with(Mask::Kind::sees, node.input(0), node.input(1), *second);
      return are_hidden(first) && with(Mask::Kind::hides, node.input(0), node.input(2), *first);
    }
    case Op::add:
      return with(Mask::Kind::added, node.input(1), node.input(0)) ||
             with(Mask::Kind::added, node.input(0), node.input(1));
    case Op::sub: return with(Mask::Kind::subtracted, node.input(1), node.input(0));
    default: return false;
  }
}

// The draw by which `kept` is true of as many as 1 - probability: what `dropped` (record/random.hpp) compares.
std::optional<Draw> find_draw(const Node& kept, const Shape& shape, double& probability) {
  if (kept.op != Op::less_equal) return {};
  const std::optional<double> least = number(kept.input(0));
  double step = 1;
  const Tensor integers = unscaled(*kept.input(1).node(), step);
  if (!least || !(*least > 0 && *least < 1) || step != 0x1p-24 || integers.node()->op != Op::cast) return {};
  const Node& low = *integers.node()->input(0).node();
  if (low.op != Op::bitwise_and || number(low.input(1)) != 0xffffff) return {};
  const Tensor words = plain(low.input(0));
  if (words.node()->op != Op::random_bits || !type_of(words).shape.same(shape)) return {};
  probability = *least;
  return Draw{words.node()->input(0), words.node()->input(1)};
}
// Whether `node` drops some of its weights and divides the others by how many there are; these go into `found`.
bool find_dropout(const Node& node, Found& found) {
  if (node.op != Op::where || number(node.input(2)) != 0.0) return false;
  double factor = 1;
  const Tensor divided = plain(node.input(1)), weights = unscaled(*divided.node(), factor);
  const std::optional<Draw> draw = find_draw(*plain(node.input(0)).node(), node.type.shape, found.dropout);
  if (!weights.defined() || !draw) return false;
  const double kept = 1 - found.dropout;
  const auto rounded = [&](double number) { return round_to(node.type.dtype, number); };
  if (std::abs(factor * kept - 1) > 1e-6 && rounded(1 / factor) != rounded(kept)) return false;
  found.draw = *draw;
  found.weights.insert(found.weights.end(), {divided, weights});
  return true;
}

// Reduces the last axis alone.
bool is_of_rows(const AxisSet& axes, const Node& node) {
  AxisSet last;
  last.insert(type_of(node.input(0)).shape.rank() - 1);
  return axes.bits == last.bits;
}
bool calls_of_rows(const Node& node, std::string_view name) {
  return node.op == Op::call && name_of(node) == name && is_of_rows(node.attributes<ReducedCall>().axes, node);
}

// The scores of which `node` is the softmax: of the call, or of exp(scores - amax(scores)) / sum(exp(...)), or
// exp(log_softmax(scores)). All of these give NaN in a row of -inf. The nodes of it that nobody else may read are added
// to `found.weights`.
Tensor softmax_operand(const Node& node, Found& found) {
  if (calls_of_rows(node, "softmax")) return node.input(0);
  if (node.op == Op::exp) {
    const Tensor logarithm = plain(node.input(0));
    if (!calls_of_rows(*logarithm.node(), "log_softmax")) return {};
    found.weights.push_back(logarithm);
    return logarithm.node()->input(0);
  }
  if (node.op != Op::div) return {};
  const Node& power = *plain(node.input(0)).node();
  if (power.op != Op::exp || !node.type.shape.same(power.type.shape)) return {};
  Tensor total = node.input(1);
  for (; total.node()->op == Op::expand; total = total.node()->input(0)) found.weights.push_back(total);
  found.weights.push_back(total);
  const Node& sum = *total.node();
  if (sum.op != Op::sum || !is_of_rows(sum.attributes<Reduce>().axes, sum) || plain(sum.input(0)).node() != &power)
    return {};
  const Node& shifted = *plain(power.input(0)).node();
  if (shifted.op != Op::sub) return {};
  Tensor greatest = shifted.input(1);
  while (greatest.node()->op == Op::expand || greatest.node()->op == Op::stop_gradient)
    greatest = greatest.node()->input(0);
  const Node& most = *greatest.node();
  if (most.op != Op::amax || !is_of_rows(most.attributes<Reduce>().axes, most)) return {};
  const Tensor scores = plain(shifted.input(0));
  Tensor of = plain(most.input(0));
  if (of.node()->op == Op::stop_gradient) of = plain(of.node()->input(0));
  return of.word() == scores.word() && type_of(scores).shape.same(node.type.shape) ? scores : Tensor();
}
// The scores from whose softmax the weights of a product come; what is between them goes into `found`.
Tensor find_softmax(const Node& product, Found& found) {
  found.weights = {product.input(0)};
  for (;;) {
    const Node& node = *found.weights.back().node();
    if (is_float_cast(node) || is_same(node))
      found.weights.push_back(node.input(0));
    else if (found.dropout > 0 || !find_dropout(node, found))
      return softmax_operand(node, found);
  }
}

// Whether the mask hides what comes after a query, and changes nothing else.
bool is_causal(const Mask& mask) {
  const std::optional<CausalNumbers> of = causal_numbers(mask.value);
  if (!of) return false;
  switch (mask.kind) {
    case Mask::Kind::sees: return of->seen != 0 && of->hidden == 0;
    case Mask::Kind::hides: return of->seen == 0 && of->hidden != 0;
    case Mask::Kind::added: return of->seen == 0 && of->hidden * mask.factor <= hides;
    case Mask::Kind::subtracted: return of->seen == 0 && -of->hidden * mask.factor <= hides;
  }
  return false;
}

// In the order in which a rewrite visits products, those of loops' bodies too, which of them are attention whose
// weights nobody else reads.
void list_products(const Graph& graph, std::vector<bool>& are_attention) {
  std::map<const Node*, int> readers;
  for (const Tensor& value : graph.nodes)
    for (const Tensor& operand : value.node()->inputs()) ++readers[operand.node()];
  for (const Tensor& output : graph.outputs) ++readers[output.node()];
  for (const Tensor& value : graph.nodes) {
    const Node& node = *value.node();
    if (node.op != Op::call)
      for (const auto& body : node.bodies()) list_products(*body, are_attention);
    if (node.op != Op::matmul) continue;
    const std::optional<Found> found = find_attention(node);
    are_attention.push_back(found && is_read_once(*found, [&](const Node& each) { return readers[&each] == 1; }));
  }
}

}  // namespace

std::optional<AttentionByHand> find_attention(const Node& product) {
  if (product.op != Op::matmul) return {};
  Found found;
  const Tensor scores = find_softmax(product, found);
  if (!scores.defined() || !find_scores(scores, found, longest_way)) return {};
  found.value = product.input(1);
  const int rank = product.type.shape.rank();
  for (const Tensor& each : {found.query, found.transposed_key, found.value})
    if (type_of(each).dtype != product.type.dtype || type_of(each).shape.rank() != rank) return {};
  if (!is_floating(product.type.dtype)) return {};
  return found;
}

bool is_read_once(const AttentionByHand& found, const std::function<bool(const Node&)>& has_one_reader) {
  return std::ranges::all_of(found.weights, [&](const Tensor& each) { return has_one_reader(*each.node()); });
}

Tensor attention_of(const AttentionByHand& found) {
  const Tensor key = transpose(found.transposed_key, -1, -2);
  const auto call = [&](const Tensor& mask, bool is_causal) {
    return nn::attention_by(
        &found.draw, found.query, key, found.value,
        {.attn_mask = mask, .dropout_p = found.dropout, .is_causal = is_causal, .scale = found.scale});
  };
  if (found.masks.size() == 1 && is_causal(found.masks[0])) return call({}, true);
  const DType dtype = type_of(found.query).dtype;
  Tensor sees, added;
  for (const Mask& mask : found.masks) {
    const bool is_bool = mask.kind == Mask::Kind::sees || mask.kind == Mask::Kind::hides;
    Tensor value = unexpanded(mask.value);
    if (mask.kind == Mask::Kind::hides) value = ~value;
    if (mask.kind == Mask::Kind::subtracted) value = -value;
    if (is_bool && mask.number != -infinity && !is_causal(mask)) {
      // Where all are hidden by a number they are alike, and not unseen.
      value = cast(where(value, 0.0, hidden), dtype == DType::f16 ? DType::f32 : dtype);
    } else if (is_bool) {
      sees = sees.defined() ? sees & value : value;
      continue;
    } else if (mask.factor != 1) {
      value = value * mask.factor;
    }
    added = added.defined() ? added + value : value;
  }
  if (sees.defined() && added.defined()) sees = where(sees, added, -infinity), added = {};
  return call(sees.defined() ? sees : added, false);
}

static GraphView fused(const GraphView& view, const std::function<bool(const Node&)>& is_wanted) {
  std::vector<bool> are_attention;
  list_products(detail::graph_of(view), are_attention);
  if (std::ranges::count(are_attention, true) == 0) return view;
  std::size_t next = 0;
  return view.rewrite([&](const NodeView& at) -> Tensor {
    const Node& node = *at.results()[0].node();
    if (node.op != Op::matmul || next == are_attention.size() || !are_attention[next++]) return {};
    const std::optional<AttentionByHand> found = find_attention(node);
    if (!found) return {};
    const Tensor made = attention_of(*found);
    return made.node()->op == Op::call && is_wanted(*made.node()) ? made : Tensor();
  });
}

GraphView fuse_attention(const GraphView& graph) {
  return fused(graph, [](const Node&) { return true; });
}

Graph fuse_attention_where(const Graph& graph, const std::function<bool(const Node&)>& is_wanted) {
  return detail::graph_of(
      fused(detail::view_of(std::make_shared<const detail::GraphData>(detail::GraphData{graph})), is_wanted));
}

}  // namespace weft
