// What a trace knows about its symbols, and what it decided on them.
#include <algorithm>
#include <span>
#include <utility>
#include <vector>

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

std::int64_t dims::at_hints(Dim dim, std::span<const DimSymbol> symbols) {
  return evaluate(dim, [&](const DimNode* atom) {
    const auto number = static_cast<std::size_t>(atom->number);
    return atom->kind == DimKind::symbol && number < symbols.size() ? symbols[number].hint : atom->lower.constant();
  });
}
std::int64_t dims::at_hints(Dim dim) {
  const DimEnvironment* const environment = DimEnvironment::current();
  return at_hints(dim, environment ? std::span<const DimSymbol>(environment->symbols) : std::span<const DimSymbol>());
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

namespace {

// How large a sum becomes by replacing: its terms and their factors. A chain of squares would double with each link.
constexpr std::size_t most_parts = 1000;
std::size_t part_count(Dim dim) {
  std::size_t count = 0;
  for (const DimTerm& term : dims::terms(dim)) count += 1 + term.factors.size();
  return count;
}

// Each factor that is solved for, replaced by its solution; the same size where the result has too many parts.
Dim replaced(Dim dim, std::span<const DimSolution> solutions) {
  Dim total = 0;
  for (const DimTerm& term : dims::terms(dim)) {
    Dim product = term.coefficient;
    for (const DimNode* factor : term.factors) {
      const auto found = std::ranges::find(solutions, factor, &DimSolution::atom);
      const Dim value = found == solutions.end() ? Dim::from_node(factor) : found->value;
      if (part_count(product) * part_count(value) > most_parts) return dim;
      product = product * value;
    }
    total = total + product;
    if (part_count(total) > most_parts) return dim;
  }
  return total;
}

const DimNode* lone_factor(Dim dim) {
  const std::vector<DimTerm> terms = dims::terms(dim);
  const bool one = terms.size() == 1 && terms[0].coefficient == 1 && terms[0].factors.size() == 1;
  return one ? terms[0].factors[0] : nullptr;
}
bool has_factor(Dim dim, const DimNode* atom) {
  return std::ranges::any_of(dims::terms(dim),
                             [&](const DimTerm& term) { return std::ranges::count(term.factors, atom) > 0; });
}

}  // namespace

// Replacing by the sides as they were decided would not end: s0*s1 - 2*s0 == s0, of 2 and 3, doubles the factors of s0
// with each replacement. So each equality is looked at once, and each factor replaced once. Arithmetic on the way must
// not decide anything, which would rewrite in turn: that a divisor is not 0 was decided where its quotient was made.
Dim DimEnvironment::rewritten(Dim dim) {
  const bool guarded = std::exchange(dims::are_guarded(), false);
  for (; solved_count < conditions.size(); ++solved_count) {
    const DimCondition& known = conditions[solved_count];
    if (known.kind != DimCondition::Kind::equal || !known.holds) continue;
    const Dim sides[] = {replaced(known.left, solutions), replaced(known.right, solutions)};
    for (const int side : {0, 1}) {
      const DimNode* const atom = lone_factor(sides[side]);
      if (!atom || has_factor(sides[1 - side], atom)) continue;
      const DimSolution solution{atom, sides[1 - side]};
      for (DimSolution& earlier : solutions) earlier.value = replaced(earlier.value, std::span(&solution, 1));
      solutions.push_back(solution);
      break;
    }
  }
  const Dim result = replaced(dim, solutions);
  dims::are_guarded() = guarded;
  return result;
}

bool DimEnvironment::require_less(Dim size, Dim limit) {
  if (bounded.contains({size.word(), limit.word()})) return true;
  if (hint(size) >= limit.constant()) return false;
  bounded.emplace(size.word(), limit.word());
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
