// The expressions of weft::Dim, and the environment in which symbols have hints, bounds and recorded conditions.
// In: arithmetic on Dim. Out: interned, normalized expressions. Invariant: equal expressions are one node, so Dim::same
// is a word comparison; normal form is a sum of products of atoms, ordered structurally (never by address), so printed
// text is the same in every process.
#pragma once
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "weft/dim.hpp"

namespace weft {

enum class DimKind : std::uint8_t {
  symbol,        // a size that a call supplies; at least `lower`
  axis,          // a loop variable of the loop IR, in [0, extent)
  value,         // an index that a kernel loads at run time (gather), in [0, extent)
  floor_divide,  // floor(left / right)
  modulo,        // left - right * floor(left / right)
  sum,           // of the terms
};

struct DimTerm {
  std::int64_t coefficient = 1;
  std::vector<const DimNode*> factors = {};  // ordered; empty for the constant term
};

struct DimNode {
  DimKind kind;
  int number = 0;                   // symbol, axis, value: which one
  Dim lower = {};                   // symbol: smallest value
  Dim extent = {};                  // axis, value: one past the largest value
  Dim left = {}, right = {};        // floor_divide, modulo
  std::vector<DimTerm> terms = {};  // sum
};

namespace dims {

Dim symbol(int number, std::int64_t lower = 2);
Dim axis(int number, Dim extent);
Dim value(int number, Dim extent);

// The sum as a list of terms; a constant is one term without factors, zero is no term.
std::vector<DimTerm> terms(Dim dim);
// The coefficient with which `axis` enters linearly, or nullopt-like {false, 0} if it enters in another way.
struct Linear {
  bool linear;
  Dim coefficient;  // the factor of the axis (symbolic strides are allowed)
};
Linear linear_in(Dim dim, Dim axis);
bool depends_on(Dim dim, Dim atom);
bool any_atom(Dim dim, const std::function<bool(const DimNode&)>& predicate);

// Replaces atoms (axes, symbols, values) and normalizes again. Return the atom's own Dim to keep it.
Dim substitute(Dim dim, const std::function<Dim(const DimNode*)>& replacement);

// Proofs from bounds alone: false means "not proved".
bool proves_nonnegative(Dim dim);
bool proves_less(Dim left, Dim right);

// The value, given the symbols' (and, where they occur, axes' and values') numbers. Saturates as Dim does.
std::int64_t evaluate(Dim dim, const std::function<std::int64_t(const DimNode*)>& atom);
std::int64_t evaluate(Dim dim, std::span<const std::int64_t> symbols);

// Text with atoms named by the callback, fully parenthesized where needed; `/` and `%` are floor_divide(a, b) and
// modulo(a, b) calls unless both sides are proved nonnegative, where C++'s own operators agree.
std::string to_text(Dim dim, const std::function<std::string(const DimNode*)>& name);
std::string to_string(Dim dim);  // s0*4 + 1, i0 for axes

}  // namespace dims

// What a trace knows about its symbols.
struct DimSymbol {
  std::int64_t hint;  // the size in the call that traced
  std::int64_t lower = 2;
  std::int64_t upper = INT64_MAX;
};
struct DimCondition {
  enum class Kind : std::uint8_t { equal, less } kind;
  Dim left, right;
  bool holds;
  // Where it was decided. Operators on Dim can't know the line that they are written on: what the user's own code
  // decides is `after` the last call of Weft before it, most often on the same line (x.size(0) < Dim(10)).
  Loc loc = {};
  bool after = false;
};
// An equality, solved for one of its sides.
struct DimSolution {
  const DimNode* atom;
  Dim value;
};
struct DimEnvironment {
  std::vector<DimSymbol> symbols;
  std::vector<DimCondition> conditions;  // decisions taken on hints, to be guarded
  Loc last_call;                         // the user's line of the last call of Weft
  std::vector<DimCondition> given;       // size < limit, of the arguments: holds without a guard
  std::vector<DimCondition> bounds;      // size < limit, to be guarded
  std::vector<DimSolution> solutions;    // of the first conditions, each replaced in the values of the others
  std::size_t solved_count = 0;          // how many conditions these are
  std::set<std::pair<std::uint64_t, std::uint64_t>> bounded;  // size and limit that require_less() was asked for

  Dim new_symbol(std::int64_t hint, std::int64_t lower = 2, std::int64_t upper = INT64_MAX);
  std::int64_t hint(Dim dim) const;
  void record(DimCondition condition);  // once each, with its place
  // The same size by the equalities that were decided: a factor that is one side of such an equality, and that the
  // other side does not contain, is replaced by the other side. Replaces in products and sums, not inside of quotients.
  Dim rewritten(Dim dim);
  // Whether size < limit, a constant of Dim::limit at most, in this call. Other calls are to be guarded for it, unless
  // the bounds that are there keep the size below Dim::limit: so it can be computed without wrapping.
  bool require_less(Dim size, Dim limit);
  static DimEnvironment*& current();  // of this thread; null outside a trace
};

namespace dims {
// The size that is expected, to choose by: in the call that was traced with these symbols; an atom that is none of them
// counts as its smallest value. Without symbols those of the thread's trace.
std::int64_t at_hints(Dim dim, std::span<const DimSymbol> symbols);
std::int64_t at_hints(Dim dim);
}  // namespace dims

}  // namespace weft
