// What a trace knows about its symbols, and what it decided on them.
#include <algorithm>

#include "base/dim_expression.hpp"
#include "base/dim_guards.hpp"
#include "base/fail.hpp"

namespace weft {

Dim DimEnvironment::new_symbol(std::int64_t hint_value, std::int64_t lower, std::int64_t upper) {
  symbols.push_back({hint_value, lower, upper});
  return dims::symbol(static_cast<int>(symbols.size()) - 1, lower);
}

std::int64_t DimEnvironment::hint(Dim dim) const {
  return dims::evaluate(dim, [&](const DimNode* atom) {
    WEFT_CHECK(atom->kind == DimKind::symbol && static_cast<std::size_t>(atom->number) < symbols.size(),
               "a size of another trace");
    return symbols[static_cast<std::size_t>(atom->number)].hint;
  });
}

void DimEnvironment::record(DimCondition condition) {
  for (const DimCondition& known : conditions) {
    if (known.kind != condition.kind) continue;
    if (known.left.same(condition.left) && known.right.same(condition.right)) return;
    bool symmetric = condition.kind == DimCondition::Kind::equal;
    if (symmetric && known.left.same(condition.right) && known.right.same(condition.left)) return;
  }
  condition.loc = last_call;
  condition.after = !called_operation();  // else a call that is under way decides
  conditions.push_back(condition);
}

Dim DimEnvironment::rewritten(Dim dim) const {
  for (std::size_t round = 0; round <= conditions.size(); ++round) {
    const Dim before = dim;
    for (const DimCondition& known : conditions) {
      if (known.kind != DimCondition::Kind::equal || !known.holds) continue;
      const auto lone = [](Dim side) -> const DimNode* {
        const std::vector<DimTerm> terms = dims::terms(side);
        const bool one = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1;
        return one ? terms[0].factors[0] : nullptr;
      };
      const DimNode* atom = lone(known.left);
      const Dim other = atom ? known.right : known.left;
      if (!atom) atom = lone(known.right);
      if (!atom) continue;
      Dim sum = 0;
      for (const DimTerm& term : dims::terms(dim)) {
        Dim product = term.coefficient;
        for (const DimNode* factor : term.factors)
          product = product * (factor == atom ? other : Dim::from_node(factor));
        sum = sum + product;
      }
      dim = sum;
    }
    if (dim.same(before)) break;
  }
  return dim;
}

bool DimEnvironment::require_less(Dim size, Dim limit) {
  if (hint(size) >= limit.constant()) return false;
  const DimCondition wanted{DimCondition::Kind::less, size, limit, true, last_call};
  // a < m keeps b below Dim::limit where b <= (Dim::limit / m) * a.
  const auto follows = [](Dim b, const DimCondition& known) {
    return dims::proves_nonnegative(known.left * Dim(Dim::limit / known.right.constant()) - b);
  };
  const auto tells = [&](const DimCondition& known) { return follows(size, known); };
  if (std::ranges::any_of(given, tells) || std::ranges::any_of(bounds, tells)) return true;
  std::erase_if(bounds, [&](const DimCondition& known) { return follows(known.left, wanted); });
  bounds.push_back(wanted);
  return true;
}

bool& dims::are_guarded() {
  thread_local bool guarded = false;
  return guarded;
}

DimEnvironment*& DimEnvironment::current() {
  thread_local DimEnvironment* environment = nullptr;
  return environment;
}

}  // namespace weft
