// A graph: what passes take and give. In: traced nodes. Out: nodes in topological order. Invariants (checked by
// verify): every operand comes before its user, every node but an input reaches an output or an effect, effects are in
// program order, types agree with inference.
#pragma once
#include <functional>

#include "ir/node_numbers.hpp"
#include "ir/table.hpp"

namespace weft {

// An output that takes an input's place: state that a function changes.
struct Update {
  int input, output;
};

struct Graph {
  std::vector<Tensor> nodes;   // all of them, operands first
  std::vector<Tensor> inputs;  // Op::input, in the order of the arguments' leaves
  std::vector<Tensor> outputs;
  std::vector<Tensor> effects;  // roots that are kept without a reader, in program order, which is also that of `nodes`
  std::vector<DimSymbol> symbols;
  std::vector<DimCondition> conditions;
  NodeNumbers numbers = {};                 // by node, its place in `nodes`
  std::vector<std::uint64_t> digests = {};  // by node, in a debug build: digest_of(node) as the graph was made

  // The place in `nodes`; NodeNumbers::none of a node of another graph.
  std::uint32_t number(const Node& node) const { return numbers.find(&node); }
  std::uint32_t number(const Tensor& value) const { return numbers.find(value.node()); }
  // Numbers the nodes anew, where the list was changed by hand.
  void number_nodes();
  // Adds a node whose operands are there.
  void add(Tensor value);
};

// Of what a node computes. A graph's nodes do not change, and verify() checks it in a debug build.
std::uint64_t digest_of(const Node& node);

// A check, a call of the host, or a node whose body holds one.
bool is_effect(const Node& node);

// An operation that the other processes of a group do too, or one whose body holds such: in one order in all of them.
bool is_collective(const Node& node);

// Collects what `outputs` and `effects` need, in recording order (which is topological). Iterative.
Graph make_graph(std::vector<Tensor> inputs, std::vector<Tensor> outputs, std::vector<Tensor> effects);

// What replaces a node in a rewritten graph: nothing (the node stays, copied where operands changed), one value,
// whose node has the further results too, or one for each result, undefined where nobody reads it. `effects`: where the
// node is an effect, those that replace it; none: its first result, where that is one.
struct Rewritten {
  Rewritten() = default;
  Rewritten(Tensor result) : result(std::move(result)) {}
  Rewritten(std::vector<Tensor> results) : results(std::move(results)) {}
  Tensor result;
  std::vector<Tensor> results, effects;
};
// Rebuilds a graph node by node. `replace` sees each node with its operands already mapped.
using Replace = std::function<Rewritten(const Node& node, std::span<const Tensor> operands)>;
Graph rewrite(const Graph& graph, const Replace& replace);

// A graph of these outputs over these of the inputs, in this order: what the outputs and the effects need has no other.
Graph with_inputs(const Graph& graph, std::span<const std::uint32_t> inputs, std::span<const Tensor> outputs);

// The same graph, to be read by people: without the memory of its data.
Graph without_data(const Graph& graph);

// While it lives, sizes of the graph compare as its trace decided them. close() throws InternalError when one was
// compared that the trace did not decide, since no guard would hold it.
class DecidedSizes {
 public:
  explicit DecidedSizes(const Graph& graph);
  ~DecidedSizes();
  DecidedSizes(const DecidedSizes&) = delete;
  void close() const;

 private:
  DimEnvironment environment_;
  std::size_t decided_;
  DimEnvironment* saved_;
};

// Throws InternalError that names the node when an invariant does not hold. Recurses into bodies.
void verify(const Graph& graph);

// One line a node: `%3 f32[64,256] = relu(%2)  # model.cpp:41 mlp`. The same text in every process; ir/parse.hpp reads
// it back.
std::string to_text(const Graph& graph);
// A digest-ready canonical text without locations: equal for equal computations.
std::string structure_text(const Graph& graph);

}  // namespace weft
