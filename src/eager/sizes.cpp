#include "eager/sizes.hpp"

#include <algorithm>
#include <utility>

#include "base/dim_expression.hpp"
#include "ir/builder.hpp"

namespace weft::eager {
namespace {

class Symbols {
 public:
  Symbols() : saved_(std::exchange(DimEnvironment::current(), &environment_)) {}
  ~Symbols() { DimEnvironment::current() = saved_; }
  Symbols(const Symbols&) = delete;

  Dim start(std::int64_t value) { return add(value, 0); }
  // Sizes 0 and 1 stay constants: they have other code.
  Dim size(Dim dim) {
    const std::int64_t value = dim.constant();
    if (value < 2) return dim;
    for (std::size_t i = 0; i < values.size(); ++i)
      if (values[i] == value && environment_.symbols[i].lower == 2) return dims::symbol(static_cast<int>(i), 2);
    return add(value, 2);
  }
  Type type(Type type) {
    for (int axis = 0; axis < type.shape.rank(); ++axis) type.shape[axis] = size(type.shape[axis]);
    return type;
  }
  void move_into(Graph& graph) const {
    graph.symbols = environment_.symbols;
    graph.conditions = environment_.conditions;
  }

  std::vector<std::int64_t> values;

 private:
  Dim add(std::int64_t value, std::int64_t lower) {
    values.push_back(value);
    return environment_.new_symbol(value, lower);
  }
  DimEnvironment environment_;
  DimEnvironment* const saved_;
};

}  // namespace

GeneralGraph general_graph(Op op, const Attributes& attributes, const Type& type, std::span<const Type> operands,
                           Symbolic symbolic, Loc loc) {
  Symbols symbols;
  const bool sizes = symbolic == Symbolic::starts_and_sizes;
  std::vector<Tensor> inputs;
  const Builder build(loc, 0, 0);
  for (const Type& operand : operands)
    inputs.push_back(build.input(inputs.size(), sizes ? symbols.type(operand) : operand));
  const Type wanted = sizes ? symbols.type(type) : type;
  const Attributes given = attributes.with_sizes([&](Dim dim) {
    return op == Op::slice ? symbols.start(dim.constant()) : sizes ? symbols.size(dim) : dim;
  });
  const Tensor node = build.make(op, inputs, given, wanted);
  GeneralGraph result{make_graph(std::move(inputs), {node}, {}), {}};
  symbols.move_into(result.graph);
  result.symbols = std::move(symbols.values);
  return result;
}

bool conditions_hold(const Graph& graph, std::span<const std::int64_t> symbols) {
  return std::ranges::all_of(graph.conditions, [&](const DimCondition& condition) {
    const std::int64_t left = dims::evaluate(condition.left, symbols), right = dims::evaluate(condition.right, symbols);
    return (condition.kind == DimCondition::Kind::equal ? left == right : left < right) == condition.holds;
  });
}

bool is_generated(Op op) {
  switch (info(op).kind) {
    case OpKind::pointwise:
    case OpKind::cast:
    case OpKind::random:
    case OpKind::view:
    case OpKind::reduce:
    case OpKind::cumulative:
    case OpKind::assemble:
    case OpKind::index:
    case OpKind::order: return true;
    default: return op == Op::iota;
  }
}

}  // namespace weft::eager
