// Guards on sizes: ranges of symbols, and conditions (DimCondition). All that compares a call's sizes with them is
// here.
#pragma once
#include <concepts>
#include <cstddef>
#include <optional>
#include <string>

#include "base/dim_expression.hpp"

namespace weft {

// What follows takes DimCondition, and what is stored of one: kind, left, right and holds.

// Whether the condition is satisfied where its sides have these values.
template <class Condition>
bool is_satisfied(const Condition& condition, std::int64_t left, std::int64_t right) {
  return (condition.kind == DimCondition::Kind::equal ? left == right : left < right) == condition.holds;
}
// The same where the symbols have these values. `value_of`: the value of a symbol, by its number.
template <class Condition, std::invocable<std::size_t> ValueOf>
bool is_satisfied(const Condition& condition, const ValueOf& value_of) {
  const auto value = [&](Dim side) {
    return dims::evaluate(side, [&](const DimNode* atom) { return value_of(static_cast<std::size_t>(atom->number)); });
  };
  return is_satisfied(condition, value(condition.left), value(condition.right));
}
template <class Condition>
bool is_satisfied(const Condition& condition, std::span<const std::int64_t> symbols) {
  return is_satisfied(condition, dims::evaluate(condition.left, symbols), dims::evaluate(condition.right, symbols));
}

// The index of the first symbol whose value is outside of its range. `symbols` have `lower` and `upper`.
template <class Symbols, std::invocable<std::size_t> ValueOf>
std::optional<std::size_t> broken_range(const Symbols& symbols, const ValueOf& value_of) {
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    const std::int64_t value = value_of(i);
    if (value < symbols[i].lower || value > symbols[i].upper) return i;
  }
  return {};
}
// The index of the first condition that is not satisfied.
template <class Conditions, std::invocable<std::size_t> ValueOf>
std::optional<std::size_t> broken_condition(const Conditions& conditions, const ValueOf& value_of) {
  for (std::size_t i = 0; i < conditions.size(); ++i)
    if (!is_satisfied(conditions[i], value_of)) return i;
  return {};
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
