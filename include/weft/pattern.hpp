// Patterns of operations, as expressions: what register_rewrite (weft/backends.hpp) and Weft's own tables look for.
//   x * sigmoid(x) * y
// The letters x, y, z, a, b and c match any value, a letter that is repeated the same value. A number matches a
// constant of exactly that number, the sign of zero included. Each primitive of weft/ops.def is a function of patterns,
// and matches whatever its attributes are; call("silu", x) matches a composite by its name. Of add and mul both orders
// are tried.
#pragma once
#include <concepts>
#include <initializer_list>
#include <string_view>

#include "weft/detail/op.hpp"

namespace weft::pattern {

inline constexpr std::string_view letters = "xyzabc";  // those that there are

// A part of a pattern.
struct Term {
  enum class Kind : std::uint8_t { letter, number, operation };  // what a term may be
  Kind kind = Kind::letter;                                      // which of these it is
  Op op = {};                                                    // operation
  std::uint8_t operands = 0;                                     // operation: their count
  bool plain = true;                                             // operation: one without attributes
  const char* composite = nullptr;  // operation: of a call, the composite's name; null: any
  std::uint8_t letter = 0;          // of `letters`
  double number = 0;                // of a number
};

// Terms in prefix order: x + -y is add x neg y.
struct Expression {
  static constexpr std::size_t most_terms = 8;  // more do not compile where the pattern is a constant
  Term terms[most_terms] = {};                  // the first `size` of them
  std::size_t size = 0;                         // how many terms there are

  constexpr Expression() = default;  // no terms
  // A constant of this number.
  constexpr Expression(double number) : size(1) { terms[0] = {.kind = Term::Kind::number, .number = number}; }
  // An operation over these operands.
  constexpr Expression(Op op, bool plain, std::initializer_list<Expression> operands, const char* composite = nullptr)
      : size(1) {
    terms[0] = {Term::Kind::operation, op, static_cast<std::uint8_t>(operands.size()), plain, composite};
    for (const Expression& operand : operands)
      for (std::size_t i = 0; i < operand.size; ++i) terms[size++] = operand.terms[i];
  }
  // Any value, under the name of one of `letters`.
  static constexpr Expression of_letter(char letter) {
    Expression result;
    result.terms[result.size++].letter = static_cast<std::uint8_t>(letters.find(letter));
    return result;
  }
};

inline constexpr Expression x = Expression::of_letter('x');  // any value
inline constexpr Expression y = Expression::of_letter('y');  // any value
inline constexpr Expression z = Expression::of_letter('z');  // any value
inline constexpr Expression a = Expression::of_letter('a');  // any value
inline constexpr Expression b = Expression::of_letter('b');  // any value
inline constexpr Expression c = Expression::of_letter('c');  // any value

// Operands of a primitive of so many; -1: any count.
template <int arity, class... E>
concept Operands = (std::convertible_to<const E&, Expression> && ...) && (arity < 0 || sizeof...(E) == arity);

// A function of each primitive's name.
#define WEFT_POINTWISE(name, arity, ...) \
  template <class... E>                  \
  requires Operands<arity, E...>         \
  constexpr Expression name(const E&... operand) { return {Op::name, true, {Expression(operand)...}}; }
#define WEFT_STRUCTURAL(name, arity, kind, attributes)                                    \
  template <class... E>                                                                   \
  requires Operands<arity, E...>                                                          \
  constexpr Expression name(const E&... operand) {                                        \
    return {Op::name, std::string_view(#attributes) == "None", {Expression(operand)...}}; \
  }
#include "weft/ops.def"

// A composite of this name, as NodeView::name() gives it: call("silu", x). The name must live on.
template <class... E>
requires Operands<-1, E...>
constexpr Expression call(const char* composite, const E&... operand) {
  return {Op::call, false, {Expression(operand)...}, composite};
}

// The primitives that these operators are: add, sub, mul, div, neg, bitwise_not.
constexpr Expression operator+(const Expression& left, const Expression& right) { return add(left, right); }
constexpr Expression operator-(const Expression& left, const Expression& right) { return sub(left, right); }  // sub
constexpr Expression operator*(const Expression& left, const Expression& right) { return mul(left, right); }  // mul
constexpr Expression operator/(const Expression& left, const Expression& right) { return div(left, right); }  // div
constexpr Expression operator-(const Expression& value) { return neg(value); }                                // neg
constexpr Expression operator~(const Expression& value) { return bitwise_not(value); }  // bitwise_not

}  // namespace weft::pattern
