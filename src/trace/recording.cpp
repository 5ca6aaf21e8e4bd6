#include "trace/recording.hpp"

#include <algorithm>

#include "ir/callee.hpp"

namespace weft::detail {
namespace {

bool same_kind(const Node& a, const Node& b);

bool same_graph(const Graph& a, const Graph& b) {
  const auto same_values = [&](std::span<const Tensor> x, std::span<const Tensor> y) {
    return std::ranges::equal(x, y, [&](const Tensor& one, const Tensor& other) {
      return one.output() == other.output() && a.number(one) == b.number(other);
    });
  };
  if (a.nodes.size() != b.nodes.size()) return false;
  for (std::size_t i = 0; i < a.nodes.size(); ++i) {
    const Node &x = *a.nodes[i].node(), &y = *b.nodes[i].node();
    if (!same_kind(x, y) || !(x.attributes() == y.attributes()) || !same_values(x.inputs(), y.inputs())) return false;
    // What lies in memory is compared as text.
    if (x.storage != y.storage) return structure_text(a) == structure_text(b);
  }
  return same_values(a.inputs, b.inputs) && same_values(a.outputs, b.outputs) && same_values(a.effects, b.effects);
}

// Calls of symbolic sizes have a callee of their trace.
bool same_callee(const Callee* a, const Callee* b) {
  if (a == b || !a || !b) return a == b;
  return a->called == b->called && a->derivative == b->derivative && a->reads == b->reads &&
         a->gradient_at == b->gradient_at && same_callee(a->made_from.get(), b->made_from.get()) &&
         same_graph(a->body, b->body);
}

bool same_bodies(const Node& a, const Node& b) {
  if (a.callee() || b.callee()) return a.definition == b.definition && same_callee(a.callee(), b.callee());
  return std::ranges::equal(a.bodies(), b.bodies(),
                            [](const auto& x, const auto& y) { return x == y || same_graph(*x, *y); });
}

// But for their attributes and operands.
bool same_kind(const Node& a, const Node& b) {
  const auto same_types = [](const Type& x, const Type& y) { return x.same(y); };
  return a.op == b.op && a.output_count == b.output_count && a.operand_count == b.operand_count &&
         a.recomputation == b.recomputation && a.type.same(b.type) &&
         std::ranges::equal(a.more_types(), b.more_types(), same_types) && same_bodies(a, b);
}

}  // namespace

bool is_host_number(const Node& node) {
  return node.op == Op::data || (node.op == Op::constant && !node.attributes<Constant>().is_size());
}

Recording make_recording(std::vector<const Node*> operations, std::span<const Tensor> asked,
                         std::vector<std::uint64_t> facts, const CodeOf& code_of) {
  Recording made;
  for (const Node* operation : operations)
    for (const Tensor& operand : operation->inputs()) made.operands.push_back(code_of(operand));
  made.operations = std::move(operations);
  for (const Tensor& value : asked) made.asked.push_back(code_of(value));
  made.facts = std::move(facts);
  return made;
}

bool same_recording(const Recording& earlier, const Recording& now, std::span<const std::uint32_t> lifted,
                    std::uint32_t first, std::vector<std::uint32_t>& differing) {
  differing.clear();
  if (earlier.operations.size() != now.operations.size() || earlier.operands != now.operands ||
      earlier.asked != now.asked || earlier.facts != now.facts)
    return false;
  for (std::size_t i = 0; i < now.operations.size(); ++i) {
    const Node &was = *earlier.operations[i], &is = *now.operations[i];
    const auto place = static_cast<std::uint32_t>(first + i);
    const auto differs = [&] {
      differing.clear();
      return false;
    };
    if (!same_kind(was, is)) return differs();
    if (was.attributes() == is.attributes() || std::ranges::binary_search(lifted, place)) continue;
    if (!is_host_number(is)) return differs();
    differing.push_back(place);
  }
  return differing.empty();
}

}  // namespace weft::detail
