// Conditions on sizes: what guards are made of (DimCondition).
#pragma once
#include "base/dim_expression.hpp"

namespace weft {

// Whether the condition is satisfied where its sides have these values.
inline bool is_satisfied(const DimCondition& condition, std::int64_t left, std::int64_t right) {
  return (condition.kind == DimCondition::Kind::equal ? left == right : left < right) == condition.holds;
}
// The same where the symbols have these values.
inline bool is_satisfied(const DimCondition& condition, std::span<const std::int64_t> symbols) {
  return is_satisfied(condition, dims::evaluate(condition.left, symbols), dims::evaluate(condition.right, symbols));
}

// What other calls are to be guarded for: what was decided in this environment, then bounds of sizes.
inline std::vector<DimCondition> guarded(const DimEnvironment& sizes) {
  std::vector<DimCondition> all = sizes.conditions;
  all.insert(all.end(), sizes.bounds.begin(), sizes.bounds.end());
  return all;
}

}  // namespace weft
