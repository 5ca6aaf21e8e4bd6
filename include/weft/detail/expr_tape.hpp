// A whole scalar expression: entries, and which of them are results. In: what a ScalarProgram holds. Out: an
// ElementwiseDefinition. Invariant once finished: every entry but the arguments is needed by a result.
#pragma once
#include "weft/detail/expr_gradient.hpp"

namespace weft::detail {

// Enough for what a person writes; a loop that accumulates may need it all.
inline constexpr int scalar_capacity = 1024;

template <int Capacity>
struct ScalarTape {
  ScalarEntry entries[static_cast<std::size_t>(Capacity)] = {};
  int entry_count = 0;
  int argument_count = 0;
  int result_count = 0;
  std::uint16_t results[max_scalar_results] = {};
  bool typed = true;

  constexpr ElementwiseDefinition definition() const {
    ElementwiseDefinition made{entries, entry_count, argument_count, result_count};
    for (int i = 0; i < result_count; ++i) made.results[i] = results[i];
    made.typed = typed;
    return made;
  }
  // Drops what no result needs, and settles the kinds.
  constexpr void finish() {
    bool used[static_cast<std::size_t>(Capacity)] = {};
    for (int i = 0; i < result_count; ++i) used[results[i]] = true;
    for (int i = entry_count; i-- > argument_count;)
      if (used[i] && entries[i].op != ScalarOp::literal)
        for (int k = 0; k < scalar_arities[static_cast<int>(entries[i].op)]; ++k) used[entries[i].operands[k]] = true;
    std::uint16_t place[static_cast<std::size_t>(Capacity)] = {};
    int kept = 0;
    for (int i = 0; i < entry_count; ++i) {
      if (i >= argument_count && !used[i]) continue;
      ScalarEntry entry = entries[i];
      bool argument = entry.op == ScalarOp::argument;
      if (argument && entry.kind == ScalarKind::unknown) entry.kind = ScalarKind::number;
      if (entry.op < ScalarOp::argument) {
        for (int k = 0; k < scalar_arities[static_cast<int>(entry.op)]; ++k)
          entry.operands[k] = place[entry.operands[k]];
        const ScalarClass dtypes = scalar_classes[static_cast<int>(entry.op)];
        typed = typed && dtypes != ScalarClass::integers &&
                !(dtypes == ScalarClass::bits && entry.kind != ScalarKind::boolean);
      }
      place[i] = static_cast<std::uint16_t>(kept);
      entries[kept++] = entry;
    }
    for (int i = 0; i < result_count; ++i) results[i] = place[results[i]];
    entry_count = kept;
  }
};

template <int Capacity, int From>
constexpr ScalarTape<Capacity> shorten(const ScalarTape<From>& tape) {
  ScalarTape<Capacity> result;
  for (int i = 0; i < Capacity; ++i) result.entries[i] = tape.entries[i];
  result.entry_count = tape.entry_count;
  result.argument_count = tape.argument_count;
  result.result_count = tape.result_count;
  for (int i = 0; i < tape.result_count; ++i) result.results[i] = tape.results[i];
  result.typed = tape.typed;
  return result;
}

// Fills an empty tape with the gradient of an expression; the scratch has an element for each of its entries.
template <int Capacity>
constexpr void fill_gradient(ScalarTape<Capacity>& tape, const ElementwiseDefinition& of, Sym* values,
                             Cotangent* cotangents) {
  ScalarProgram program{tape.entries, Capacity};
  tape.result_count = scalar_gradient(of, program, tape.results, values, cotangents);
  while (tape.argument_count < program.count && tape.entries[tape.argument_count].op == ScalarOp::argument)
    ++tape.argument_count;
  tape.entry_count = program.count;
  tape.typed = of.typed;
  tape.finish();
}
template <int Count>
constexpr auto gradient_tape(const ScalarTape<Count>& of) {
  ScalarTape<16 * Count + 64> tape;  // a primitive's derivative takes a handful of operations
  Sym values[static_cast<std::size_t>(Count)];
  Cotangent cotangents[static_cast<std::size_t>(Count)];
  fill_gradient(tape, of.definition(), values, cotangents);
  return tape;
}

}  // namespace weft::detail
