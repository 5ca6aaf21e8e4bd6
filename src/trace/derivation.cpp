#include "trace/derivation.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "autograd/backward.hpp"
#include "autograd/forward.hpp"
#include "base/dim_conditions.hpp"
#include "ir/graph_copy.hpp"
#include "record/row_gradients.hpp"

namespace weft::detail {
namespace {

// The derivative of a graph, recorded in a trace of its own, over a copy of the graph's nodes.
struct Derivation {
  Trace trace;
  std::size_t operand_count, result_count;
  std::vector<Tensor> inputs;       // operands, results, gradients of the results or tangents of the operands
  std::optional<GraphCopy> copies;  // of the graph's nodes
  std::vector<Tensor> outputs;
  std::vector<DerivedGraph::Gradient> gradients;

  Derivation(const Graph& graph, const AskedDerivative& asked, std::span<const std::int64_t> symbols, Loc loc)
      : operand_count(graph.inputs.size()), result_count(graph.outputs.size()) {
    trace.id = new_trace_id();
    trace.dims.symbols = graph.symbols;
    trace.dims.conditions = graph.conditions;
    for (std::size_t i = 0; i < symbols.size(); ++i) trace.dims.symbols[i].hint = symbols[i];
    const TraceScope scope(trace);
    for (const Tensor& operand : graph.inputs) add_input(type_of(operand), loc);
    for (const Tensor& result : graph.outputs) add_input(type_of(result), loc);
    for (const Tensor& given : asked.forward ? graph.inputs : graph.outputs) add_input(type_of(given), loc);
    std::vector<Tensor> arguments(inputs.begin(), inputs.begin() + static_cast<std::ptrdiff_t>(operand_count));
    std::vector<Tensor> variables, values, seeds;
    const std::span<const unsigned char> varies = asked.forward ? asked.given : asked.wanted,
                                         counts = asked.forward ? asked.wanted : asked.given;
    for (std::size_t i = 0; i < operand_count; ++i)
      if (varies[i]) variables.push_back(arguments[i] = record(Op::variable, {arguments[i]}, {}, {}, loc));
    copies.emplace(graph, [&](const Node& node, std::span<const Tensor> operands) -> std::vector<Tensor> {
      if (node.op == Op::input) return {arguments[static_cast<std::size_t>(node.attributes<Parameter>().slot)]};
      const Tensor copy = Builder::copy(node, operands);
      copy.node()->trace = trace.id;
      return results_of(copy);
    });
    for (std::size_t i = 0; i < result_count; ++i)
      if (counts[i]) values.push_back(copies->of(graph.outputs[i]));
    for (std::size_t i = 0; i < asked.given.size(); ++i)
      if (asked.given[i]) seeds.push_back(inputs[operand_count + result_count + i]);
    if (variables.empty() || values.empty()) return;
    const std::vector<Tensor> found = asked.forward ? push_forward(values, variables, seeds, "jvp", loc)
                                                    : pull_back(values, seeds, variables, "grad", loc);
    for (std::size_t i = 0, next = 0; i < asked.wanted.size(); ++i) {
      if (!asked.wanted[i]) continue;
      const Tensor& gradient = found[next++];
      if (!gradient.defined()) continue;
      const auto rows = asked.forward ? std::nullopt : rows_of_gradient(gradient, loc);
      gradients.push_back({i, outputs.size(), rows.has_value()});
      outputs.push_back(rows ? rows->index : gradient);
      if (rows) outputs.push_back(rows->rows);
    }
  }

  // The derivative as a graph over all inputs. The results of the call are read, and not computed again.
  Graph joint(const Graph& graph) const {
    std::unordered_map<const Node*, std::vector<std::pair<unsigned, std::size_t>>> known;
    for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
      const Tensor& copy = copies->of(graph.outputs[i]);
      known[copy.node()].emplace_back(copy.output(), operand_count + i);
    }
    return rewrite(make_graph(inputs, outputs, trace.effects),
                   [&](const Node& node, std::span<const Tensor> operands) -> Rewritten {
                     const auto found = known.find(&node);
                     if (found == known.end()) return {};
                     std::vector<Tensor> results;
                     if (node.output_count > 1) results = results_of(Builder::copy(node, operands));
                     results.resize(node.output_count);
                     for (const auto& [output, input] : found->second) results[output] = inputs[input];
                     return results;
                   });
  }

 private:
  void add_input(const Type& type, Loc loc) { inputs.push_back(Builder(loc, 0, trace.id).input(inputs.size(), type)); }
};

// The places of the inputs that something reads.
std::vector<std::uint32_t> inputs_read(const Graph& graph) {
  std::vector<bool> is_read(graph.inputs.size());
  const auto note = [&](const Tensor& value) {
    if (value.node()->op == Op::input)
      is_read[static_cast<std::size_t>(value.node()->attributes<Parameter>().slot)] = true;
  };
  for (const Tensor& value : graph.nodes) std::ranges::for_each(value.node()->inputs(), note);
  std::ranges::for_each(graph.outputs, note);
  std::vector<std::uint32_t> read;
  for (std::size_t i = 0; i < is_read.size(); ++i)
    if (is_read[i]) read.push_back(static_cast<std::uint32_t>(i));
  return read;
}

// Each output of the graph is a result. One that is an input is taken from there, and one that comes twice is computed
// once.
void list_results(TraceResult& traced) {
  std::vector<Tensor> outputs;
  std::unordered_map<std::uint64_t, std::uint32_t> places;
  for (const Tensor& output : traced.graph.outputs) {
    if (output.node()->op == Op::input) {
      const auto slot = static_cast<std::size_t>(output.node()->attributes<Parameter>().slot);
      traced.results.push_back({Source::Kind::argument, traced.inputs[slot]});
      continue;
    }
    const auto [found, added] = places.emplace(output.word(), static_cast<std::uint32_t>(outputs.size()));
    if (added) outputs.push_back(output);
    traced.results.push_back({Source::Kind::computed, found->second});
  }
  traced.graph.outputs = std::move(outputs);
}

}  // namespace

DerivedGraph derived(const Graph& graph, const AskedDerivative& asked, std::span<const std::int64_t> symbols, Loc loc) {
  const Derivation made(graph, asked, symbols, loc);
  DerivedGraph all;
  if (made.outputs.empty()) return all;
  const std::vector<DimCondition> conditions = guarded(made.trace.dims);
  all.conditions.assign(conditions.begin() + static_cast<std::ptrdiff_t>(graph.conditions.size()), conditions.end());
  all.gradients = made.gradients;
  const Graph joint = made.joint(graph);
  all.reads = inputs_read(joint);
  all.traced.graph = with_inputs(joint, all.reads, joint.outputs);
  all.traced.graph.symbols = made.trace.dims.symbols;
  all.traced.graph.conditions = conditions;
  for (std::size_t i = 0; i < all.reads.size(); ++i) all.traced.inputs.push_back(kept_leaf(i));
  list_results(all.traced);
  return all;
}

ForwardReads reads_of_derivative(const Graph& graph, const AskedDerivative& asked,
                                 std::span<const std::int64_t> symbols, Loc loc) {
  const Derivation made(graph, asked, symbols, loc);
  std::unordered_map<const Node*, Node*> originals;
  for (const Tensor& value : graph.nodes) originals.emplace(made.copies->of(value).node(), value.node());
  return forward_reads(made.outputs, [&](const Tensor& value) {
    const auto found = originals.find(value.node());
    return found == originals.end() ? Tensor() : Tensor(found->second, value.output());
  });
}

}  // namespace weft::detail
