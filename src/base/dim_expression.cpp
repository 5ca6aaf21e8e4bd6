#include "base/dim_expression.hpp"

#include <algorithm>
#include <deque>
#include <mutex>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "base/dim_guards.hpp"
#include "base/fail.hpp"
#include "base/fork.hpp"
#include "base/lazy.hpp"

namespace weft {
namespace {

// ---- order and interning ------------------------------------------------------------------------------------------

int compare(const DimNode* a, const DimNode* b);

int compare(Dim a, Dim b) {
  if (a.same(b)) return 0;
  if (a.is_constant() || b.is_constant()) {
    if (a.is_constant() != b.is_constant()) return a.is_constant() ? -1 : 1;
    return a.constant() < b.constant() ? -1 : 1;
  }
  return compare(a.node(), b.node());
}

int compare_factors(const std::vector<const DimNode*>& a, const std::vector<const DimNode*>& b) {
  if (a.size() != b.size()) return a.size() > b.size() ? -1 : 1;  // products first, the constant last
  for (std::size_t i = 0; i < a.size(); ++i)
    if (int c = compare(a[i], b[i])) return c;
  return 0;
}

int compare(const DimNode* a, const DimNode* b) {
  if (a == b) return 0;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->number != b->number) return a->number < b->number ? -1 : 1;
  if (int c = compare(a->lower, b->lower)) return c;
  if (int c = compare(a->extent, b->extent)) return c;
  if (int c = compare(a->left, b->left)) return c;
  if (int c = compare(a->right, b->right)) return c;
  if (a->terms.size() != b->terms.size()) return a->terms.size() < b->terms.size() ? -1 : 1;
  for (std::size_t i = 0; i < a->terms.size(); ++i) {
    if (int c = compare_factors(a->terms[i].factors, b->terms[i].factors)) return c;
    if (a->terms[i].coefficient != b->terms[i].coefficient)
      return a->terms[i].coefficient < b->terms[i].coefficient ? -1 : 1;
  }
  return 0;
}

std::size_t hash(const DimNode& node) {
  std::size_t h = static_cast<std::size_t>(node.kind) * 31 + static_cast<std::size_t>(node.number);
  auto mix = [&h](std::size_t v) { h = (h ^ v) * 0x9e3779b97f4a7c15ull; };
  for (Dim dim : {node.lower, node.extent, node.left, node.right}) mix(dim.word());
  for (const DimTerm& term : node.terms) {
    mix(static_cast<std::size_t>(term.coefficient));
    for (const DimNode* factor : term.factors) mix(reinterpret_cast<std::size_t>(factor));
  }
  return h;
}

bool equal(const DimNode& a, const DimNode& b) { return compare(&a, &b) == 0; }

// Expressions live as long as the process: there are few of them, and every trace asks for the same ones again.
Dim intern(DimNode node) {
  struct Known {
    std::deque<DimNode> nodes;
    std::unordered_multimap<std::size_t, const DimNode*> buckets;
  };
  static constinit Lazy<Known> known;
  auto& [nodes, buckets] = known.get();
  std::size_t key = hash(node);
  std::lock_guard lock(process_mutex(LockOrder::sizes));
  auto [first, last] = buckets.equal_range(key);
  for (; first != last; ++first)
    if (equal(*first->second, node)) return Dim::from_node(first->second);
  nodes.push_back(std::move(node));
  buckets.emplace(key, &nodes.back());
  return Dim::from_node(&nodes.back());
}

// ---- results that are known --------------------------------------------------------------------------------------

// Results depend on the operands alone, which live as long as the process, and a trace asks for the same ones for each
// operation. Each thread keeps the last results, one a place.
enum class Arithmetic : std::uint8_t { nothing, sum, product, is_nonnegative };
struct KnownResult {
  Dim a, b, result;
  Arithmetic kind = Arithmetic::nothing;
};
constexpr int place_bits = 8;
thread_local constinit KnownResult known_results[1 << place_bits];

template <class Compute>
Dim known_or(Arithmetic kind, Dim a, Dim b, Compute compute) {
  const std::uint64_t hash =
      (a.word() * 0x9e3779b97f4a7c15 ^ b.word()) * 0xc2b2ae3d27d4eb4f + static_cast<std::uint64_t>(kind);
  KnownResult& place = known_results[hash * 0x9e3779b97f4a7c15 >> (64 - place_bits)];
  if (place.kind == kind && place.a.same(a) && place.b.same(b)) return place.result;
  const Dim result = compute();
  place = {a, b, result, kind};
  return result;
}

// ---- sums ---------------------------------------------------------------------------------------------------------

Dim from_terms(std::vector<DimTerm> terms);

bool is_quotient(const DimNode* node) { return node->kind == DimKind::floor_divide; }

bool before(const DimNode* a, const DimNode* b) { return compare(a, b) < 0; }

// c*R*(e % d) + c*R*d*(e / d) == c*R*e: what flattening and splitting the same axis gives. Of a divisor of
// several terms all of the products with d must be there.
bool recombine(std::vector<DimTerm>& terms) {
  for (std::size_t m = 0; m < terms.size(); ++m) {
    for (std::size_t f = 0; f < terms[m].factors.size(); ++f) {
      const DimNode* modulo = terms[m].factors[f];
      if (modulo->kind != DimKind::modulo) continue;
      const Dim quotient = modulo->left / modulo->right;
      if (quotient.is_constant()) continue;
      DimTerm rest = terms[m];
      rest.factors.erase(rest.factors.begin() + static_cast<std::ptrdiff_t>(f));
      std::vector<bool> replaced(terms.size());
      replaced[m] = true;
      const std::vector<DimTerm> divisor = dims::terms(modulo->right);
      const bool found = std::ranges::all_of(divisor, [&](const DimTerm& each) {
        DimTerm wanted = rest;
        wanted.coefficient = (Dim(rest.coefficient) * Dim(each.coefficient)).constant();
        wanted.factors.push_back(quotient.node());
        wanted.factors.insert(wanted.factors.end(), each.factors.begin(), each.factors.end());
        std::sort(wanted.factors.begin(), wanted.factors.end(), before);
        for (std::size_t q = 0; q < terms.size(); ++q)
          if (terms[q].coefficient == wanted.coefficient && terms[q].factors == wanted.factors) {
            replaced[q] = true;
            return true;
          }
        return false;
      });
      if (!found) continue;
      std::vector<DimTerm> kept;
      for (std::size_t i = 0; i < terms.size(); ++i)
        if (!replaced[i]) kept.push_back(terms[i]);
      for (const DimTerm& term : dims::terms(modulo->left)) {
        DimTerm product{(Dim(term.coefficient) * Dim(rest.coefficient)).constant(), term.factors};
        product.factors.insert(product.factors.end(), rest.factors.begin(), rest.factors.end());
        kept.push_back(std::move(product));
      }
      terms = std::move(kept);
      return true;
    }
  }
  return false;
}

void normalize(std::vector<DimTerm>& terms) {
  for (DimTerm& term : terms) std::sort(term.factors.begin(), term.factors.end(), before);
  std::sort(terms.begin(), terms.end(),
            [](const DimTerm& a, const DimTerm& b) { return compare_factors(a.factors, b.factors) < 0; });
  std::vector<DimTerm> merged;
  for (DimTerm& term : terms) {
    if (!merged.empty() && merged.back().factors == term.factors)
      merged.back().coefficient = (Dim(merged.back().coefficient) + Dim(term.coefficient)).constant();
    else
      merged.push_back(std::move(term));
  }
  std::erase_if(merged, [](const DimTerm& term) { return term.coefficient == 0; });
  terms = std::move(merged);
}

Dim from_terms(std::vector<DimTerm> terms) {
  normalize(terms);
  while (recombine(terms)) normalize(terms);
  if (terms.empty()) return Dim(0);
  if (terms.size() == 1) {
    if (terms[0].factors.empty()) return Dim(terms[0].coefficient);
    if (terms[0].factors.size() == 1 && terms[0].coefficient == 1) return Dim::from_node(terms[0].factors[0]);
  }
  DimNode node{DimKind::sum};
  node.terms = std::move(terms);
  return intern(std::move(node));
}

// Exact quotient of two terms, if there is one.
bool divide_term(const DimTerm& term, const DimTerm& divisor, DimTerm& quotient) {
  if (divisor.coefficient == 0 || term.coefficient % divisor.coefficient != 0) return false;
  quotient = term;
  quotient.coefficient /= divisor.coefficient;
  for (const DimNode* factor : divisor.factors) {
    auto found = std::find(quotient.factors.begin(), quotient.factors.end(), factor);
    if (found == quotient.factors.end()) return false;
    quotient.factors.erase(found);
  }
  return true;
}

std::int64_t floor_divide_integers(std::int64_t a, std::int64_t b) {
  std::int64_t q = a / b;
  return (a % b != 0 && (a < 0) != (b < 0)) ? q - 1 : q;
}

struct Split {
  Dim quotient, rest;
};
// By a divisor of several terms, as polynomials are divided: by the term of most factors, as long as it divides one.
// Nothing is gained where more terms are left than there were.
Split split_by_sum(Dim a, Dim d, const std::vector<DimTerm>& divisor) {
  const DimTerm& lead = *std::ranges::max_element(divisor, {}, [](const DimTerm& term) { return term.factors.size(); });
  constexpr int most_steps = 32;
  Dim quotient = 0, rest = a;
  for (int step = 0; step < most_steps; ++step) {
    const std::vector<DimTerm> left = dims::terms(rest);
    DimTerm exact;
    if (std::ranges::none_of(left, [&](const DimTerm& term) { return divide_term(term, lead, exact); })) break;
    const Dim part = from_terms({exact});
    quotient = quotient + part;
    rest = rest - part * d;
  }
  if (quotient.same(Dim(0)) || dims::terms(rest).size() >= dims::terms(a).size()) return {Dim(0), a};
  return {quotient, rest};
}

// a = quotient * d + rest, with every exactly divisible term moved into the quotient.
Split split(Dim a, Dim d) {
  std::vector<DimTerm> divisor = dims::terms(d);
  if (divisor.size() > 1) return split_by_sum(a, d, divisor);
  std::vector<DimTerm> quotient, rest;
  for (const DimTerm& term : dims::terms(a)) {
    DimTerm exact;
    if (divide_term(term, divisor[0], exact))
      quotient.push_back(std::move(exact));
    else
      rest.push_back(term);
  }
  return {from_terms(std::move(quotient)), from_terms(std::move(rest))};
}

// ---- bounds -------------------------------------------------------------------------------------------------------

bool is_positive(Dim dim) { return dims::proves_less(Dim(0), dim); }

// In a trace a guard remembers that a divisor is not 0: quotients are simplified as if none were.
bool is_zero_divisor(Dim d) {
  if (d.is_constant()) return d.constant() == 0;
  return dims::are_guarded() && DimEnvironment::current() && !is_positive(d) && d == Dim(0);
}

bool is_nonnegative(const DimNode* atom) {
  switch (atom->kind) {
    case DimKind::symbol: return atom->lower.constant() >= 0;
    case DimKind::axis:
    case DimKind::value: return true;
    case DimKind::modulo: return is_positive(atom->right);
    case DimKind::floor_divide: return is_positive(atom->right) && dims::proves_nonnegative(atom->left);
    case DimKind::sum: break;
  }
  return dims::proves_nonnegative(Dim::from_node(atom));
}

std::optional<Dim> bound(Dim dim, bool upper);

std::optional<Dim> bound_of_atom(const DimNode* node, bool upper) {
  switch (node->kind) {
    case DimKind::symbol: return Dim::from_node(node);
    case DimKind::axis:
    case DimKind::value: return upper ? node->extent - Dim(1) : Dim(0);
    case DimKind::modulo:
      if (!is_positive(node->right)) return {};
      return upper ? node->right - Dim(1) : Dim(0);
    case DimKind::floor_divide: {
      if (!is_positive(node->right)) return {};
      const std::optional<Dim> inner = bound(node->left, upper);
      return inner ? std::optional(*inner / node->right) : inner;
    }
    case DimKind::sum: break;
  }
  return bound(Dim::from_node(node), upper);
}

// An inclusive bound that has only symbols, and quotients of them, in it; none where it can't be told.
std::optional<Dim> bound(Dim dim, bool upper) {
  Dim total = 0;
  for (const DimTerm& term : dims::terms(dim)) {
    const bool side = (term.coefficient >= 0) == upper;
    Dim product = Dim(term.coefficient);
    for (const DimNode* factor : term.factors) {
      // The bound of a product is that of its factors where none of them is negative.
      if (term.factors.size() > 1 && !is_nonnegative(factor)) return {};
      const std::optional<Dim> part = bound_of_atom(factor, side);
      if (!part) return {};
      product = product * *part;
    }
    total = total + product;
  }
  return total;
}

// No integers make a sum 0 whose terms have a divisor in common that its constant does not have: 5*s0 is never 1.
bool is_never_zero(Dim sum) {
  std::int64_t divisor = 0, constant = 0;
  for (const DimTerm& term : dims::terms(sum))
    if (term.factors.empty())
      constant = term.coefficient;
    else
      divisor = std::gcd(divisor, term.coefficient);
  return divisor > 1 && constant % divisor != 0;
}

}  // namespace

// ---- Dim ----------------------------------------------------------------------------------------------------------

Dim Dim::add(Dim a, Dim b) {
  return known_or(Arithmetic::sum, a, b, [&] {
    std::vector<DimTerm> terms = dims::terms(a), more = dims::terms(b);
    terms.insert(terms.end(), more.begin(), more.end());
    return from_terms(std::move(terms));
  });
}

Dim Dim::multiply(Dim a, Dim b) {
  return known_or(Arithmetic::product, a, b, [&] {
    std::vector<DimTerm> product;
    for (const DimTerm& x : dims::terms(a))
      for (const DimTerm& y : dims::terms(b)) {
        DimTerm term{(Dim(x.coefficient) * Dim(y.coefficient)).constant(), x.factors};
        term.factors.insert(term.factors.end(), y.factors.begin(), y.factors.end());
        product.push_back(std::move(term));
      }
    return from_terms(std::move(product));
  });
}

Dim Dim::floor_divide(Dim a, Dim d) {
  if (is_zero_divisor(d)) fail("Dim", {}, "division by zero");
  if (a.beyond() && d.is_constant()) return Dim((a.constant() < 0) == (d.constant() < 0) ? most : -most);
  if (a.is_constant() && d.is_constant()) return Dim(floor_divide_integers(a.constant(), d.constant()));
  Split parts = split(a, d);
  if (parts.rest.is_constant() && d.is_constant()) return parts.quotient + floor_divide(parts.rest, d);
  if (parts.rest.same(Dim(0))) return parts.quotient;
  if (dims::proves_nonnegative(parts.rest) && dims::proves_less(parts.rest, d)) return parts.quotient;
  if (parts.rest.node() && is_quotient(parts.rest.node()) && is_positive(d))
    return parts.quotient + parts.rest.node()->left / (parts.rest.node()->right * d);
  DimNode node{DimKind::floor_divide};
  node.left = parts.rest;
  node.right = d;
  return parts.quotient + intern(std::move(node));
}

Dim Dim::modulo(Dim a, Dim d) {
  if (is_zero_divisor(d)) fail("Dim", {}, "modulo by zero");
  if (a.beyond() && d.is_constant()) return a;
  if (a.is_constant() && d.is_constant())
    return Dim(a.constant() - d.constant() * floor_divide_integers(a.constant(), d.constant()));
  Dim rest = split(a, d).rest;
  if (rest.is_constant() && d.is_constant()) return modulo(rest, d);
  if (rest.same(Dim(0))) return rest;
  if (dims::proves_nonnegative(rest) && dims::proves_less(rest, d)) return rest;
  if (const DimNode* inner = rest.node();
      inner && inner->kind == DimKind::modulo && split(inner->right, d).rest.same(Dim(0)))
    return inner->left % d;
  DimNode node{DimKind::modulo};
  node.left = rest;
  node.right = d;
  return intern(std::move(node));
}

void Dim::refuse(std::int64_t value, std::size_t bytes) {
  fail("size", {}, "an integer of ", bytes, " bytes does not hold ", value);
}

std::int64_t Dim::specialize() const {
  DimEnvironment* environment = DimEnvironment::current();
  WEFT_CHECK(environment, "a symbolic size outside its trace");
  std::int64_t hint = environment->hint(*this);
  environment->record({DimCondition::Kind::equal, *this, Dim(hint), true});
  return hint;
}

bool Dim::decide_equal(Dim a, Dim b) {
  if (Dim difference = a - b; difference.is_constant()) return difference.constant() == 0;
  if (dims::proves_less(a, b) || dims::proves_less(b, a)) return false;
  DimEnvironment* environment = DimEnvironment::current();
  WEFT_CHECK(environment, "a symbolic size outside its trace");
  if (Dim difference = environment->rewritten(a - b); difference.is_constant()) return difference.constant() == 0;
  if (is_never_zero(a - b)) return false;
  bool holds = environment->hint(a) == environment->hint(b);
  environment->record({DimCondition::Kind::equal, a, b, holds});
  return holds;
}

bool Dim::decide_less(Dim a, Dim b) {
  if (dims::proves_less(a, b)) return true;
  if (dims::proves_nonnegative(a - b)) return false;
  DimEnvironment* environment = DimEnvironment::current();
  WEFT_CHECK(environment, "a symbolic size outside its trace");
  bool holds = environment->hint(a) < environment->hint(b);
  environment->record({DimCondition::Kind::less, a, b, holds});
  return holds;
}

// ---- dims ---------------------------------------------------------------------------------------------------------

namespace dims {

Dim symbol(int number, std::int64_t lower) {
  DimNode node{DimKind::symbol};
  node.number = number;
  node.lower = Dim(lower);
  return intern(std::move(node));
}
Dim axis(int number, Dim extent) {
  if (extent.same(Dim(1))) return Dim(0);
  DimNode node{DimKind::axis};
  node.number = number;
  node.extent = extent;
  return intern(std::move(node));
}
Dim value(int number, Dim extent) {
  DimNode node{DimKind::value};
  node.number = number;
  node.extent = extent;
  return intern(std::move(node));
}

std::vector<DimTerm> terms(Dim dim) {
  if (dim.is_constant()) {
    if (dim.constant() == 0) return {};
    return {DimTerm{dim.constant(), {}}};
  }
  if (dim.node()->kind == DimKind::sum) return dim.node()->terms;
  return {DimTerm{1, {dim.node()}}};
}

Linear linear_in(Dim dim, Dim axis) {
  std::vector<DimTerm> coefficient;
  if (axis.is_constant()) return {true, Dim(0)};
  for (const DimTerm& term : terms(dim)) {
    DimTerm rest{term.coefficient, {}};
    int power = 0;
    for (const DimNode* factor : term.factors) {
      if (factor == axis.node())
        ++power;
      else if (depends_on(Dim::from_node(factor), axis))
        return {false, Dim(0)};
      else
        rest.factors.push_back(factor);
    }
    if (power > 1) return {false, Dim(0)};
    if (power == 1) coefficient.push_back(std::move(rest));
  }
  return {true, from_terms(std::move(coefficient))};
}

static bool computed_nonnegative(Dim dim) {
  const std::optional<Dim> least = bound(dim, false);
  if (!least) return false;
  if (least->is_constant()) return least->constant() >= 0;
  // Write each symbol as its lower bound plus a nonnegative rest: with nonnegative coefficients and atoms it is proved.
  const Dim shifted = substitute(*least, [](const DimNode* atom) {
    return atom->kind == DimKind::symbol ? atom->lower + symbol(atom->number, 0) : Dim::from_node(atom);
  });
  for (const DimTerm& term : terms(shifted)) {
    if (term.coefficient < 0) return false;
    for (const DimNode* factor : term.factors)
      if (factor->kind != DimKind::symbol && !is_nonnegative(factor)) return false;
  }
  return true;
}

bool proves_nonnegative(Dim dim) {
  if (dim.is_constant()) return dim.constant() >= 0;
  return !known_or(Arithmetic::is_nonnegative, dim, dim, [&] { return Dim(computed_nonnegative(dim)); }).same(Dim(0));
}

bool proves_less(Dim left, Dim right) { return proves_nonnegative(right - left - Dim(1)); }

}  // namespace dims

}  // namespace weft
