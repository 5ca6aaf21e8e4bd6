// The invariants of a graph.
#include <range/v3/view/concat.hpp>
#include <string>
#include <vector>

#include "base/fail.hpp"
#include "ir/callee.hpp"
#include "ir/composites.hpp"
#include "ir/factorization.hpp"
#include "ir/graph.hpp"
#include "ir/infer.hpp"

namespace weft {

namespace {

bool fits(const Type& a, const Type& b) {
  bool same = a.dtype == b.dtype && a.device == b.device && a.shape.rank() == b.shape.rank();
  for (int d = 0; same && d < a.shape.rank(); ++d) same = a.shape[d] == b.shape[d];
  return same;
}
std::vector<Type> types_of(std::span<const Tensor> values) {
  std::vector<Type> types;
  for (const Tensor& value : values) types.push_back(type_of(value));
  return types;
}
// What is sliced or stacked along axis 0, without it.
Type slice_of(Type type, Dim length, const std::string& name) {
  WEFT_CHECK(type.shape.rank() > 0 && type.shape[0] == length, name, ": ", to_string(type), " has no ",
             dims::to_string(length), " slices");
  Shape shape;
  for (int i = 1; i < type.shape.rank(); ++i) shape.push_back(type.shape[i]);
  type.shape = shape;
  return type;
}

void verify_body(const Graph& body, std::span<const Type> operands, std::span<const Type> results,
                 const std::string& name) {
  WEFT_CHECK(body.inputs.size() == operands.size() && body.outputs.size() == results.size(), name, ": its body takes ",
             body.inputs.size(), " and gives ", body.outputs.size());
  for (std::size_t k = 0; k < operands.size(); ++k)
    WEFT_CHECK(fits(operands[k], type_of(body.inputs[k])), name, ": operand ", k, " is ", to_string(operands[k]),
               ", its body takes ", to_string(type_of(body.inputs[k])));
  for (std::size_t k = 0; k < results.size(); ++k)
    WEFT_CHECK(fits(results[k], type_of(body.outputs[k])), name, ": result ", k, " is ", to_string(results[k]),
               ", its body gives ", to_string(type_of(body.outputs[k])));
}

// A region's bodies against its operands and results.
void verify_region(const Node& node, const std::string& name) {
  std::vector<Type> operands = types_of(node.inputs()), results{node.type};
  results.insert(results.end(), node.more_types().begin(), node.more_types().end());
  const std::size_t bodies = node.op == Op::call || node.op == Op::scan ? 1 : 2;
  WEFT_CHECK(node.bodies().size() == bodies, name, " has ", node.bodies().size(), " bodies");
  if (node.op == Op::scan) {
    const auto& scan = node.attributes<Scan>();
    const auto carries = static_cast<std::size_t>(scan.carries), scanned = static_cast<std::size_t>(scan.scanned);
    WEFT_CHECK(carries + scanned <= operands.size() && carries <= results.size(), name, " has too few operands");
    for (std::size_t i = 0; i < scanned; ++i)
      operands[carries + i] = slice_of(operands[carries + i], scan.length, name);
    for (std::size_t i = carries; i < results.size(); ++i) results[i] = slice_of(results[i], scan.length, name);
  }
  if (node.op == Op::cond) operands.erase(operands.begin());
  if (node.op == Op::while_loop) {
    WEFT_CHECK(node.attributes<While>().carries == node.output_count, name, " has ", node.output_count, " results");
    WEFT_CHECK(node.bodies()[0]->outputs.size() == 1 && type_of(node.bodies()[0]->outputs[0]).dtype == DType::boolean,
               name, ": its condition is no bool");
    const Type given[] = {type_of(node.bodies()[0]->outputs[0])};
    verify_body(*node.bodies()[0], operands, given, name);
    return verify_body(*node.bodies()[1], operands, results, name);
  }
  for (const auto& body : node.bodies()) verify_body(*body, operands, results, name);
}

void verify_nodes(const Graph& graph) {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = *graph.nodes[i].node();
    const OpInfo& row = info(node.op);
    WEFT_CHECK(graph.number(node) == i, "node ", i, " (", row.name, ") has number ", graph.number(node));
    for (const Tensor& operand : node.inputs()) {
      WEFT_CHECK(operand.defined(), "undefined operand of %", i, " ", row.name);
      WEFT_CHECK(graph.number(operand) < i, "operand of %", i, " ", row.name,
                 " comes after its user or is of another graph");
      WEFT_CHECK(operand.output() < operand.node()->output_count, "%", i, " ", row.name,
                 " reads a result that does not exist");
    }
    WEFT_CHECK(node.more_types().size() + 1 == node.output_count, "%", i, " ", row.name, " result types");
    Type inferred = infer(node.op, node.inputs(), node.attributes(), node.type, node.loc);
    bool agrees = inferred.dtype == node.type.dtype && inferred.shape.rank() == node.type.shape.rank() &&
                  inferred.device == node.type.device;
    for (int d = 0; agrees && d < inferred.shape.rank(); ++d) agrees = inferred.shape[d] == node.type.shape[d];
    WEFT_CHECK(agrees, "%", i, " ", row.name, " has type ", to_string(node.type), ", inferred ", to_string(inferred));
    if (row.kind == OpKind::factorization)
      WEFT_CHECK(infer_factorization(node.op, node.inputs(), node.attributes(), node.loc).size() == node.output_count,
                 "%", i, " ", row.name, " has ", node.output_count, " results");
    if (node.op == Op::call)  // a scalar expression has the name of the function around it, and nothing else
      WEFT_CHECK(&node.attributes().type() == &composite_attributes(name_of(node)) ||
                     &node.attributes().type() == &attribute_type<Called>,
                 "%", i, " ", name_of(node), " has the attributes of another composite");
    if (node.op == Op::constant && !is_floating(node.type.dtype)) {
      const auto [least, greatest] = integer_range(node.type.dtype);
      const std::int64_t number = node.attributes<Constant>().as_integer();
      WEFT_CHECK(least <= number && number <= greatest, "%", i, " constant ", number, " is no ",
                 info(node.type.dtype).name);
    }
    if (node.op == Op::all_reduce_wait) {
      const Node& start = *node.input(0).node();
      WEFT_CHECK(start.op == Op::all_reduce_start && start.attributes() == node.attributes(), "%", i, " waits for %",
                 graph.number(start), ", which is no all_reduce_start of its group");
    }
    for (const auto& body : node.bodies()) body->symbols.empty() ? verify_nodes(*body) : verify(*body);
    if (row.kind == OpKind::region)
      verify_region(node, concat_text("%", i, " ", row.name));
    else
      WEFT_CHECK(node.bodies().empty(), "%", i, " ", row.name, " has bodies");
  }
  for (std::size_t i = 0; i < graph.digests.size(); ++i)
    WEFT_CHECK(graph.digests[i] == digest_of(*graph.nodes[i].node()), "%", i, " ", info(graph.nodes[i].node()->op).name,
               " has changed since the graph was made");
  std::vector<bool> needed(graph.nodes.size(), false);
  for (const Tensor& root : ranges::views::concat(graph.inputs, graph.outputs, graph.effects)) {
    const std::uint32_t number = graph.number(root);
    WEFT_CHECK(number != NodeNumbers::none, info(root.node()->op).name,
               " is an input, output or effect of the graph and not among its nodes");
    needed[number] = true;
  }
  for (std::size_t i = graph.nodes.size(); i-- > 0;) {
    const Node& node = *graph.nodes[i].node();
    WEFT_CHECK(needed[i], "%", i, " ", info(node.op).name, " reaches no output and no effect");
    for (const Tensor& operand : node.inputs()) needed[graph.number(operand)] = true;
  }
  std::vector<std::uint32_t> effects, listed;
  for (const Tensor& value : graph.nodes)
    if (is_effect(*value.node())) effects.push_back(graph.number(value));
  for (const Tensor& effect : graph.effects)
    if (is_effect(*effect.node())) listed.push_back(graph.number(effect));
  for (std::size_t i = 0; i < std::max(effects.size(), listed.size()); ++i)
    WEFT_CHECK(i < listed.size() && i < effects.size() && listed[i] == effects[i], "effect %",
               i < effects.size() ? effects[i] : listed[i], " is not listed, or not in the order of the nodes");
  for (std::size_t i = 0; i < graph.inputs.size(); ++i)
    WEFT_CHECK(graph.inputs[i].node()->op == Op::input &&
               graph.inputs[i].node()->attributes<Parameter>().slot == static_cast<std::int64_t>(i));
}

}  // namespace

void verify(const Graph& graph) {
  // Sizes that the trace decided to be equal may be spelled differently. Those of a body that has none of its own are
  // the trace's too.
  DecidedSizes sizes(graph);
  verify_nodes(graph);
}

}  // namespace weft
