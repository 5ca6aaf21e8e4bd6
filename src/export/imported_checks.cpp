#include "export/imported_checks.hpp"

#include "base/fail.hpp"
#include "ir/callee.hpp"

namespace weft::detail {
namespace {

void check_node(const Node& node, const char* operation, Loc loc) {
  const auto refuse = [&](const auto&... words) { fail(operation, loc, name_of(node), " ", words...); };
  const std::size_t operands = node.operand_count;
  const int rank = node.type.shape.rank();
  switch (node.op) {
    case Op::concat:
      if (operands == 0) refuse("has no operands");
      return;
    case Op::cond:
      if (operands == 0) refuse("has no operands");
      if (type_of(node.input(0)).dtype != DType::boolean || type_of(node.input(0)).shape.rank() != 0)
        refuse("has a condition that is no single bool: ", to_string(type_of(node.input(0))));
      return;
    case Op::scan: {
      const auto& scan = node.attributes<Scan>();
      const auto most = static_cast<std::int64_t>(operands);
      if (scan.carries < 0 || scan.scanned < 0 || scan.carries > most || scan.scanned > most - scan.carries)
        refuse("has ", scan.carries, " carried and ", scan.scanned, " scanned values of ", most, " operands");
      return;
    }
    case Op::while_loop: {
      const std::int64_t carries = node.attributes<While>().carries;
      if (carries < 1 || carries > static_cast<std::int64_t>(operands))
        refuse("has ", carries, " carried values of ", operands, " operands");
      return;
    }
    case Op::iota:
      if (node.attributes<Along>().axis >= rank) refuse("has no axis ", int{node.attributes<Along>().axis});
      return;
    case Op::slice: {
      const int axis = node.attributes<Slice>().axis;
      if (axis >= rank || axis >= type_of(node.input(0)).shape.rank()) refuse("has no axis ", axis);
      return;
    }
    case Op::scatter_add:
    case Op::scatter_amax:
      if (rank == 0 || type_of(node.input(0)).shape.rank() > type_of(node.input(1)).shape.rank())
        refuse("has operands of too few axes");
      return;
    default: break;
  }
  if (info(node.op).kind == OpKind::reduce)
    for (int axis = type_of(node.input(0)).shape.rank(); axis < max_rank; ++axis)
      if (node.attributes<Reduce>().axes[axis]) refuse("has no axis ", axis);
}

}  // namespace

void check_imported(const Graph& graph, const char* operation, Loc loc) {
  for (std::size_t i = 0; i < graph.symbols.size(); ++i)
    if (graph.symbols[i].lower < 0 || graph.symbols[i].lower > graph.symbols[i].upper)
      fail(operation, loc, "s", i, " has the range from ", graph.symbols[i].lower, " to ", graph.symbols[i].upper);
  std::size_t inputs = 0;
  for (const Tensor& value : graph.nodes) {
    inputs += value.node()->op == Op::input;
    check_node(*value.node(), operation, loc);
    for (const auto& body : value.node()->bodies()) check_imported(*body, operation, loc);
  }
  if (inputs != graph.inputs.size()) fail(operation, loc, "two inputs have one slot");
}

}  // namespace weft::detail
