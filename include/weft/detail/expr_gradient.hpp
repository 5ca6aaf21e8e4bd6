// The gradient of a scalar expression is another one. In: the entries of an expression. Out: those of its
// vector-Jacobian product, by the derivative column of weft/ops.def. Contributions to one value are added in the
// reverse order of its uses, as the backward pass over tensors does it. At compile time for what a user writes, at run
// time for the rest.
#pragma once
#include "weft/detail/expr_symbol.hpp"
#include "weft/detail/slopes.hpp"

namespace weft::detail {

struct NoGradient {};
inline constexpr NoGradient none;

// A gradient that may not exist yet.
struct Cotangent {
  Sym value;
  bool defined = false;
  constexpr void contribute(Sym part) {
    value = defined ? value + part : part;
    defined = true;
  }
  constexpr void contribute(NoGradient) {}
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
// Adds what flows from an operation with gradient `g` into its operands; `into` is null for an operand without one.
constexpr void scalar_pull_back(ScalarOp op, Sym g, const Sym* x, Sym y, Cotangent* const* into) {
  [[maybe_unused]] const Sym a = x[0], b = x[1], c = x[2];
#define WEFT_PART(i, part) \
  if (into[i]) into[i]->contribute(part);
#define WEFT_PULL_BACK_1(da) WEFT_PART(0, da)
#define WEFT_PULL_BACK_2(da, db) WEFT_PART(0, da) WEFT_PART(1, db)
#define WEFT_PULL_BACK_3(da, db, dc) WEFT_PART(0, da) WEFT_PART(1, db) WEFT_PART(2, dc)
  switch (op) {
// clang-format off
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, reference, ...) \
  case ScalarOp::name: WEFT_PULL_BACK_##arity(__VA_ARGS__) break;
#include "weft/ops.def"
    // clang-format on
    default: break;
  }
#undef WEFT_PART
#undef WEFT_PULL_BACK_1
#undef WEFT_PULL_BACK_2
#undef WEFT_PULL_BACK_3
}
#pragma GCC diagnostic pop

// Writes the gradient into `program` (empty) and its results into `results`; returns how many there are. `values` and
// `cotangents` are scratch of as many elements as there are entries.
constexpr int scalar_gradient(const ElementwiseDefinition& of, ScalarProgram& program, std::uint16_t* results,
                              Sym* values, Cotangent* cotangents) {
  for (int i = 0; i < of.argument_count; ++i) {
    ScalarEntry argument;
    argument.kind = of.entries[i].kind;
    values[i] = Sym(program, program.add(argument));
  }
  Sym gradients[max_scalar_results];
  for (int i = 0; i < of.result_count; ++i) {
    if (of.entries[of.results[i]].kind == ScalarKind::boolean) continue;
    ScalarEntry argument;
    argument.kind = ScalarKind::number;
    gradients[i] = Sym(program, program.add(argument));
  }
  for (int i = of.argument_count; i < of.entry_count; ++i) {
    ScalarEntry entry = of.entries[i];
    if (entry.op != ScalarOp::literal)
      for (int k = 0; k < scalar_arities[static_cast<int>(entry.op)]; ++k)
        entry.operands[k] = values[entry.operands[k]].entry_in(program);
    values[i] = Sym(program, program.add(entry));
  }
  for (int i = of.result_count; i-- > 0;)
    if (of.entries[of.results[i]].kind != ScalarKind::boolean) cotangents[of.results[i]].contribute(gradients[i]);
  for (int i = of.entry_count; i-- > of.argument_count;) {
    const ScalarEntry& entry = of.entries[i];
    if (!cotangents[i].defined || entry.op == ScalarOp::literal) continue;
    Sym x[3];
    Cotangent* into[3] = {};
    for (int k = 0; k < scalar_arities[static_cast<int>(entry.op)]; ++k) {
      const ScalarEntry& operand = of.entries[entry.operands[k]];
      x[k] = values[entry.operands[k]];
      bool wanted = operand.kind != ScalarKind::boolean && operand.op != ScalarOp::literal;
      into[k] = wanted ? &cotangents[entry.operands[k]] : nullptr;
    }
    scalar_pull_back(entry.op, cotangents[i].value, x, values[i], into);
  }
  int count = 0;
  for (int i = 0; i < of.argument_count; ++i)
    if (of.entries[i].kind != ScalarKind::boolean) {
      if (count == max_scalar_results) scalar_error("a derivative of this order has too many results");
      results[count++] = (cotangents[i].defined ? cotangents[i].value : Sym(0.0)).entry_in(program);
    }
  return count;
}

}  // namespace weft::detail
