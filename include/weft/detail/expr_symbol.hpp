// Sym: a value of a scalar expression while it is written down. A lambda that is called on Syms leaves its operations
// in a ScalarProgram, at compile time where the lambda allows it. In: operators and the functions of weft/ops.def,
// literals. Out: entries. Literals are weak: they take the dtype of what they meet.
#pragma once
#include <concepts>
#include <type_traits>

#include "weft/detail/expr_definition.hpp"
#include "weft/tensor.hpp"

namespace weft {
namespace detail {

enum class ScalarClass : std::uint8_t { arithmetic, floating, comparison, bits, integers, predicate, select };
inline constexpr ScalarClass scalar_classes[] = {
#define WEFT_POINTWISE(name, arity, dtypes, ...) ScalarClass::dtypes,
#include "weft/ops.def"
};
inline constexpr int scalar_arities[] = {
#define WEFT_POINTWISE(name, arity, ...) arity,
#include "weft/ops.def"
};

// The user's mistake. Not a constant expression, so that it is thrown when the expression is first used.
[[noreturn]] void scalar_error(const char* message);
[[noreturn]] inline void refuse_scalar_literal() {
  scalar_error("an integer literal of a scalar expression is beyond i64: write it as a double");
}

struct ScalarProgram {
  ScalarEntry* entries;
  int capacity;
  int count = 0;

  constexpr std::uint16_t add(const ScalarEntry& entry) {
    if (count == capacity)
      scalar_error("a scalar expression has too many operations: split it, or write it on tensors");
    entries[count] = entry;
    return static_cast<std::uint16_t>(count++);
  }
  constexpr void demand_boolean(int at) {
    if (entries[at].kind == ScalarKind::unknown) entries[at].kind = ScalarKind::boolean;
  }
};

template <class>
inline constexpr bool never = false;

}  // namespace detail

class Sym {
 public:
  constexpr Sym() = default;  // the literal 0.0
  template <Arithmetic T>
  constexpr Sym(T value)
      : kind_(std::is_same_v<T, bool> ? DTypeKind::boolean
              : std::is_integral_v<T> ? DTypeKind::integer
                                      : DTypeKind::floating) {
    if constexpr (std::is_unsigned_v<T> && sizeof(T) == 8)
      if (value > static_cast<T>(INT64_MAX)) detail::refuse_scalar_literal();
    if constexpr (std::is_integral_v<T>) integer_ = static_cast<std::int64_t>(value);
    number_ = static_cast<double>(value);
  }
  constexpr Sym(detail::ScalarProgram& program, std::uint16_t entry) : program_(&program), entry_(entry) {}

  template <std::same_as<bool> T>
  explicit constexpr operator T() const {
    static_assert(detail::never<T>,
                  "a scalar expression has no value to branch on: write where(condition, a, b), minimum or maximum");
    return T();
  }
  template <std::same_as<double> T>
  constexpr operator T() const {
    static_assert(detail::never<T>, "a scalar expression is not a number: call weft's functions (exp, not std::exp)");
    return T();
  }

  constexpr detail::ScalarProgram* program() const { return program_; }
  constexpr bool is_literal() const { return !program_; }
  constexpr DTypeKind literal_kind() const { return kind_; }
  constexpr double number() const { return number_; }
  constexpr std::int64_t integer() const { return integer_; }
  // Its index in `program`; a literal is added there.
  constexpr std::uint16_t entry_in(detail::ScalarProgram& program) const {
    if (program_ == &program) return entry_;
    if (program_) detail::scalar_error("values of two scalar expressions meet: each call of elementwise has its own");
    detail::ScalarEntry literal{detail::ScalarOp::literal};
    literal.kind = kind_ == DTypeKind::boolean ? detail::ScalarKind::boolean : detail::ScalarKind::number;
    literal.literal = kind_;
    literal.number = number_;
    literal.integer = integer_;
    return program.add(literal);
  }

 private:
  detail::ScalarProgram* program_ = nullptr;  // null: a literal
  std::uint16_t entry_ = 0;
  DTypeKind kind_ = DTypeKind::floating;
  double number_ = 0;
  std::int64_t integer_ = 0;
};

namespace detail {

template <class T>
concept SymOperand = std::same_as<T, Sym> || Arithmetic<T>;
template <class... T>
concept SymOperands = (SymOperand<T> && ...) && (std::same_as<T, Sym> || ...);

template <class A, class B>
concept SymAndOther = (std::same_as<A, Sym> && !SymOperand<B>) || (std::same_as<B, Sym> && !SymOperand<A>);
template <class A>
constexpr Sym refuse_operand() {
  static_assert(never<A>,
                "a scalar expression works on its own values and on numbers: make everything else an operand");
  return {};
}

// An operation on literals alone, as C++ would compute it.
constexpr Sym fold_literals(ScalarOp op, Sym a, Sym b) {
  const bool integers = a.literal_kind() != DTypeKind::floating && b.literal_kind() != DTypeKind::floating;
  std::int64_t result = 0;
  bool overflow = false;
  switch (op) {
    case ScalarOp::add:
      if (!integers) return Sym(a.number() + b.number());
      overflow = __builtin_add_overflow(a.integer(), b.integer(), &result);
      break;
    case ScalarOp::sub:
      if (!integers) return Sym(a.number() - b.number());
      overflow = __builtin_sub_overflow(a.integer(), b.integer(), &result);
      break;
    case ScalarOp::mul:
      if (!integers) return Sym(a.number() * b.number());
      overflow = __builtin_mul_overflow(a.integer(), b.integer(), &result);
      break;
    case ScalarOp::neg:
      if (a.literal_kind() == DTypeKind::floating) return Sym(-a.number());
      overflow = __builtin_sub_overflow(std::int64_t{0}, a.integer(), &result);
      break;
    case ScalarOp::div: return Sym(a.number() / b.number());
    default: scalar_error("a function of literals alone in a scalar expression: write its value as a number");
  }
  if (overflow) refuse_scalar_literal();
  return Sym(result);
}

constexpr Sym scalar_apply(ScalarOp op, Sym a, Sym b = 0, Sym c = 0) {
  ScalarProgram* found = a.program() ? a.program() : b.program() ? b.program() : c.program();
  if (!found) return fold_literals(op, a, b);
  ScalarProgram& program = *found;
  int arity = scalar_arities[static_cast<int>(op)];
  ScalarEntry entry{op};
  bool all_boolean = true, any_boolean = false, any_number = false;
  const Sym operands[] = {a, b, c};
  for (int i = 0; i < arity; ++i) {
    entry.operands[i] = operands[i].entry_in(program);
    ScalarKind kind = program.entries[entry.operands[i]].kind;
    all_boolean = all_boolean && kind == ScalarKind::boolean;
    any_boolean = any_boolean || kind == ScalarKind::boolean;
    any_number = any_number || kind == ScalarKind::number;
  }
  switch (scalar_classes[static_cast<int>(op)]) {
    case ScalarClass::comparison:
    case ScalarClass::predicate: entry.kind = ScalarKind::boolean; break;
    case ScalarClass::bits:
      entry.kind = any_boolean ? ScalarKind::boolean : any_number ? ScalarKind::number : ScalarKind::unknown;
      if (any_boolean)
        for (int i = 0; i < arity; ++i) program.demand_boolean(entry.operands[i]);
      break;
    case ScalarClass::select: {
      program.demand_boolean(entry.operands[0]);
      bool booleans = program.entries[entry.operands[1]].kind == ScalarKind::boolean &&
                      program.entries[entry.operands[2]].kind == ScalarKind::boolean;
      entry.kind = booleans ? ScalarKind::boolean : ScalarKind::number;
      break;
    }
    case ScalarClass::integers:
    case ScalarClass::arithmetic:
      if (all_boolean) scalar_error("arithmetic on bools alone in a scalar expression: use & | ^ ~ or where");
      entry.kind = ScalarKind::number;
      break;
    case ScalarClass::floating: entry.kind = ScalarKind::number; break;
  }
  return Sym(program, program.add(entry));
}

}  // namespace detail

// ---- the functions of the table, on Syms ----------------------------------------------------------------------------
#define WEFT_SCALAR_1(name) \
  constexpr Sym name(Sym a) { return detail::scalar_apply(detail::ScalarOp::name, a); }
#define WEFT_SCALAR_2(name)          \
  template <class A, class B>        \
  requires detail::SymOperands<A, B> \
  constexpr Sym name(A a, B b) { return detail::scalar_apply(detail::ScalarOp::name, a, b); }
#define WEFT_SCALAR_3(name)             \
  template <class A, class B, class C>  \
  requires detail::SymOperands<A, B, C> \
  constexpr Sym name(A a, B b, C c) { return detail::scalar_apply(detail::ScalarOp::name, a, b, c); }
#define WEFT_POINTWISE(name, arity, ...) WEFT_SCALAR_##arity(name)
#include "weft/ops.def"
#undef WEFT_SCALAR_1
#undef WEFT_SCALAR_2
#undef WEFT_SCALAR_3

// A branch.
template <class C, class A, class B>
requires detail::SymOperands<C, A, B>
constexpr Sym select(C condition, A then, B otherwise) { return where(condition, then, otherwise); }

#define WEFT_SCALAR_OPERATOR(op, result) \
  template <class A, class B>            \
  requires detail::SymOperands<A, B>     \
  constexpr Sym operator op(A a, B b) { return result; }
WEFT_SCALAR_OPERATOR(+, add(a, b))
WEFT_SCALAR_OPERATOR(-, sub(a, b))
WEFT_SCALAR_OPERATOR(*, mul(a, b))
WEFT_SCALAR_OPERATOR(/, div(a, b))
WEFT_SCALAR_OPERATOR(%, remainder(a, b))
WEFT_SCALAR_OPERATOR(==, equal(a, b))
WEFT_SCALAR_OPERATOR(!=, not_equal(a, b))
WEFT_SCALAR_OPERATOR(<, less(a, b))
WEFT_SCALAR_OPERATOR(<=, less_equal(a, b))
WEFT_SCALAR_OPERATOR(>, less(b, a))
WEFT_SCALAR_OPERATOR(>=, less_equal(b, a))
WEFT_SCALAR_OPERATOR(&, bitwise_and(a, b))
WEFT_SCALAR_OPERATOR(|, bitwise_or(a, b))
WEFT_SCALAR_OPERATOR(^, bitwise_xor(a, b))
#undef WEFT_SCALAR_OPERATOR
// A tensor, a string: one sentence instead of every operator there is.
#define WEFT_SCALAR_OPERATOR(op)     \
  template <class A, class B>        \
  requires detail::SymAndOther<A, B> \
  constexpr Sym operator op(const A&, const B&) { return detail::refuse_operand<A>(); }
WEFT_SCALAR_OPERATOR(+)
WEFT_SCALAR_OPERATOR(-)
WEFT_SCALAR_OPERATOR(*)
WEFT_SCALAR_OPERATOR(/)
WEFT_SCALAR_OPERATOR(<)
WEFT_SCALAR_OPERATOR(>)
#undef WEFT_SCALAR_OPERATOR
constexpr Sym operator-(Sym a) { return neg(a); }
constexpr Sym operator+(Sym a) { return a; }
constexpr Sym operator~(Sym a) { return bitwise_not(a); }
constexpr Sym& operator+=(Sym& a, std::type_identity_t<Sym> b) {
  return a = detail::scalar_apply(detail::ScalarOp::add, a, b);
}
constexpr Sym& operator-=(Sym& a, std::type_identity_t<Sym> b) {
  return a = detail::scalar_apply(detail::ScalarOp::sub, a, b);
}
constexpr Sym& operator*=(Sym& a, std::type_identity_t<Sym> b) {
  return a = detail::scalar_apply(detail::ScalarOp::mul, a, b);
}
constexpr Sym& operator/=(Sym& a, std::type_identity_t<Sym> b) {
  return a = detail::scalar_apply(detail::ScalarOp::div, a, b);
}

template <class A, class B>
requires detail::SymOperands<A, B>
constexpr Sym operator&&(A, B) {
  static_assert(detail::never<A>, "in a scalar expression write & for &&, | for || and ~ for !");
  return {};
}
template <class A, class B>
requires detail::SymOperands<A, B>
constexpr Sym operator||(A, B) {
  static_assert(detail::never<A>, "in a scalar expression write & for &&, | for || and ~ for !");
  return {};
}
template <std::same_as<Sym> A>
constexpr Sym operator!(A a) {
  static_assert(detail::never<A>, "in a scalar expression write & for &&, | for || and ~ for !");
  return a;
}

}  // namespace weft
