// Conditions on sizes: what guards are made of (DimCondition).
#pragma once
#include <string>

#include "base/dim_expression.hpp"

namespace weft {

// What follows takes DimCondition, and what is stored of one: kind, left, right and holds.

// Whether the condition is satisfied where its sides have these values.
template <class Condition>
bool is_satisfied(const Condition& condition, std::int64_t left, std::int64_t right) {
  return (condition.kind == DimCondition::Kind::equal ? left == right : left < right) == condition.holds;
}
// The same where the symbols have these values.
template <class Condition>
bool is_satisfied(const Condition& condition, std::span<const std::int64_t> symbols) {
  return is_satisfied(condition, dims::evaluate(condition.left, symbols), dims::evaluate(condition.right, symbols));
}

// "s0 < 10", "s0 != s1"
template <class Condition>
std::string condition_text(const Condition& condition) {
  const char* const relation = condition.kind == DimCondition::Kind::equal ? (condition.holds ? " == " : " != ")
                                                                           : (condition.holds ? " < " : " >= ");
  return dims::to_string(condition.left) + relation + dims::to_string(condition.right);
}
template <class Condition>
bool names_symbol(const Condition& condition, std::size_t symbol) {
  const auto is_it = [&](const DimNode& atom) {
    return atom.kind == DimKind::symbol && static_cast<std::size_t>(atom.number) == symbol;
  };
  return dims::any_atom(condition.left, is_it) || dims::any_atom(condition.right, is_it);
}

// What other calls are to be guarded for: what was decided in this environment, then bounds of sizes.
inline std::vector<DimCondition> guarded(const DimEnvironment& sizes) {
  std::vector<DimCondition> all = sizes.conditions;
  all.insert(all.end(), sizes.bounds.begin(), sizes.bounds.end());
  return all;
}

}  // namespace weft
