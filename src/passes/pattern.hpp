// Rewrites as data. A row is a pattern, its replacement, and a condition:
//   {x * 1, x},
//   {x + -y, x - y},
//   {x + 0, x, is_of_integers},
//   {x / c, {"x * (1 / c)", multiply_by_reciprocal}, is_power_of_two},
// The letters x, y, z, a, b and c match any value, a letter that is repeated the same value. A number matches a
// constant of exactly that number, the sign of zero included. Of add and mul both orders are tried. The replacement
// is an expression over the pattern's letters or, where it needs attributes or computes, a function with its
// text. A row holds only where the result has the type of what it replaces.
#pragma once
#include <concepts>
#include <string_view>
#include <utility>

#include "ir/builder.hpp"
#include "passes/context.hpp"

namespace weft {

namespace pattern {

inline constexpr std::string_view letters = "xyzabc";

struct Term {
  enum class Kind : std::uint8_t { letter, number, operation } kind = Kind::letter;
  Op op = {};                 // operation
  std::uint8_t operands = 0;  // operation: their count
  bool plain = true;          // operation: one without attributes
  std::uint8_t letter = 0;    // of `letters`
  double number = 0;
};

// Terms in prefix order: x + -y is add x neg y.
struct Expression {
  static constexpr std::size_t most_terms = 8;
  Term terms[most_terms] = {};
  std::size_t size = 0;

  constexpr Expression() = default;
  constexpr Expression(double number) : size(1) { terms[0] = {.kind = Term::Kind::number, .number = number}; }
  constexpr Expression(Op op, bool plain, std::initializer_list<Expression> operands) : size(1) {
    terms[0] = {Term::Kind::operation, op, static_cast<std::uint8_t>(operands.size()), plain};
    for (const Expression& operand : operands)
      for (std::size_t i = 0; i < operand.size; ++i) terms[size++] = operand.terms[i];
  }
  static constexpr Expression of_letter(char letter) {
    Expression result;
    result.terms[result.size++].letter = static_cast<std::uint8_t>(letters.find(letter));
    return result;
  }
};

inline constexpr Expression x = Expression::of_letter('x'), y = Expression::of_letter('y'),
                            z = Expression::of_letter('z'), a = Expression::of_letter('a'),
                            b = Expression::of_letter('b'), c = Expression::of_letter('c');

// A function of each primitive's name.
template <int arity, class... E>
concept Operands = (std::convertible_to<const E&, Expression> && ...) && (arity < 0 || sizeof...(E) == arity);
#define WEFT_POINTWISE(name, arity, ...) \
  template <class... E>                  \
  requires Operands<arity, E...>         \
  constexpr Expression name(const E&... operand) { return {Op::name, true, {Expression(operand)...}}; }
#define WEFT_STRUCTURAL(name, arity, kind, attributes)                                   \
  template <class... E>                                                                  \
  requires Operands<arity, E...>                                                         \
  constexpr Expression name(const E&... operand) {                                       \
    return {Op::name, std::is_same_v<weft::attributes, None>, {Expression(operand)...}}; \
  }
#include "weft/ops.def"

constexpr Expression operator+(const Expression& left, const Expression& right) { return add(left, right); }
constexpr Expression operator-(const Expression& left, const Expression& right) { return sub(left, right); }
constexpr Expression operator*(const Expression& left, const Expression& right) { return mul(left, right); }
constexpr Expression operator/(const Expression& left, const Expression& right) { return div(left, right); }
constexpr Expression operator-(const Expression& value) { return neg(value); }
constexpr Expression operator~(const Expression& value) { return bitwise_not(value); }

}  // namespace pattern

class Rewriting;

// A node that a pattern fits. Its operands are already rewritten, the node's own are those before the pass.
class Match {
 public:
  const Node& node;
  const std::span<const Tensor> operands;
  const PassContext& context;

  const Tensor& operator[](const pattern::Expression& letter) const { return *bound_[letter.terms[0].letter]; }
  Builder build() const { return Builder(node); }
  // How often the graph before the pass reads a value of it.
  int readers(const Tensor& value) const;

 private:
  friend class Rewriting;
  Match(const Node& node, std::span<const Tensor> operands, Rewriting& rewriting);
  Rewriting& rewriting_;
  const Tensor* bound_[pattern::letters.size()] = {};
};

struct Replacement {
  pattern::Expression expression;
  const char* text = nullptr;  // of what the function makes
  Tensor (*make)(const Match&) = nullptr;

  constexpr Replacement(const pattern::Expression& expression) : expression(expression) {}
  constexpr Replacement(const char* text, Tensor (*make)(const Match&)) : text(text), make(make) {}
};

struct Rewrite {
  pattern::Expression from;
  Replacement to;
  bool (*when)(const Match&) = nullptr;
};
std::string to_text(const Rewrite& row);  // add(x, neg(y)) -> sub(x, y)

// Rows, found by the operation of a pattern's root. Refuses at compile time a row that can't be applied.
class RewriteTable {
 public:
  template <std::size_t count>
  consteval explicit RewriteTable(const Rewrite (&rows)[count]) : rows_(rows) {
    static_assert(count <= most_rows);
    for (std::size_t i = count; i-- > 0;) {  // of one operation in the order of the rows
      check(rows[i]);
      std::uint8_t& first = first_[static_cast<std::size_t>(rows[i].from.terms[0].op)];
      next_[i] = std::exchange(first, static_cast<std::uint8_t>(i + 1));
    }
  }
  std::span<const Rewrite> rows() const { return rows_; }
  const Rewrite* first(Op op) const { return at(first_[static_cast<std::size_t>(op)]); }
  const Rewrite* next(const Rewrite* row) const { return at(next_[row - rows_.data()]); }

 private:
  static constexpr std::size_t most_rows = 64;
  const Rewrite* at(std::uint8_t after) const { return after ? &rows_[after - 1u] : nullptr; }
  static constexpr void check(const Rewrite& row) {
    using Kind = pattern::Term::Kind;
    if (row.from.terms[0].kind != Kind::operation) throw "a pattern is an operation";
    const pattern::Expression& to = row.to.expression;
    for (std::size_t i = 0; i < to.size; ++i) {
      const pattern::Term& term = to.terms[i];
      bool known = term.kind == Kind::operation && term.plain;  // else a function gives the attributes
      for (std::size_t j = 0; j < row.from.size; ++j)
        known |= term.kind == Kind::letter && row.from.terms[j].letter == term.letter;
      if (!known) throw "a replacement is made of the pattern's letters and of operations without attributes";
    }
  }

  std::span<const Rewrite> rows_;
  std::uint8_t first_[op_count] = {};  // by operation: 1 + the first row, 0 for none
  std::uint8_t next_[most_rows] = {};
};

// The graph with the table applied to every node, operands first, and to each replacement, until no row matches: in
// bodies too. Rows of one root are tried in their order.
Graph rewrite(const Graph& graph, const RewriteTable& table, const PassContext& context);

}  // namespace weft
