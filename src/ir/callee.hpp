// What calls apply. In: a body, recorded once for a signature (name, attributes, types of the operands). Out: one
// object that every call of the signature shares. Invariant: nobody changes the body or renumbers its nodes; a pass
// works on a copy (passes/regions.hpp).
#pragma once
#include "ir/graph.hpp"

namespace weft {

namespace eager {
class Program;
}

// A composite's own derivative: over values of a call, as a derivative's body has them, it records the gradients of the
// operands. Undefined means zero, in `gradients` (of the results) and in what it gives. What is not wanted, by
// operand, is dropped.
struct CallValues {
  const Attributes& called;
  std::span<const Tensor> operands, results, gradients;
  std::span<const unsigned char> wanted;
  // Set where a provider may do the derivative whole: the call then keeps all of these values as operands, also those
  // that its body does not read.
  bool& is_whole;
};
using CallDerivative = void (*)(const CallValues& values, std::span<Tensor> operand_gradients);

struct Callee {
  Attributes called;  // a struct of ir/composites.hpp
  Graph body;
  CallDerivative derivative = nullptr;  // null: the body is differentiated
  // Of a derivative (autograd/call.cpp) what it differentiates, of a batch (batching/regions.cpp) what it is of one
  // example.
  std::shared_ptr<const Callee> made_from = {};
  // Of a derivative: the values that the body reads (operands of the differentiated call, then its results, then
  // gradients of those), and for each operand the result that is its gradient, or -1.
  std::vector<std::uint32_t> reads = {};
  std::vector<int> gradient_at = {};
  // The body as the eager executor runs it, under the mutex of the callees: made at the first use, null where nodes run
  // one by one (record/evaluate.cpp).
  mutable bool lowered = false;
  mutable std::shared_ptr<const eager::Program> program = {};
};

// The composite's name, in the attributes of a call.
InternedText called_name(const Attributes& called);
Attributes with_called_name(Attributes called, std::string_view name);

// For people: of a call the composite's name, else the primitive's.
const char* name_of(const Node& node);

// Lets a node of Op::call apply it.
void set_callee(Node& node, std::shared_ptr<const Callee> callee);

// Copies the nodes of a body, with `arguments` in the place of its inputs, and gives the values of its outputs. The
// copies take the place of the call, and calls inside that `inlines` names give way to their bodies. Effects are added
// in order.
struct Place {
  Loc loc;
  std::uint32_t scope, trace, recomputation = 0, region = 0;
};
std::vector<Tensor> apply_body(const Graph& body, std::span<const Tensor> arguments, const Place& place,
                               const std::function<bool(const Node&)>& inlines, std::vector<Tensor>& effects);

// The graph with the nodes of their bodies in the place of the calls that `inlines` names. Bodies of loops stay.
Graph with_calls_inlined(const Graph& graph, const std::function<bool(const Node&)>& inlines);

// The same graph in nodes of its own.
Graph copy_graph(const Graph& graph);

// The same node over these operands, with the values of the symbols (by symbol) in types, attributes and bodies.
Tensor copy_with_sizes(const Node& node, std::span<const Tensor> operands, std::span<const std::int64_t> symbols);

}  // namespace weft
