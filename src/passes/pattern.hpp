// Rewrites as data. A row is a pattern, its replacement, and a condition:
//   {x * 1, x},
//   {x + -y, x - y},
//   {x + 0, x, is_of_integers},
//   {x / c, {"x * (1 / c)", multiply_by_reciprocal}, is_power_of_two},
// weft/pattern.hpp says what a pattern matches. The replacement is an expression over the pattern's letters or, where
// it needs attributes or computes, a function with its text. A row holds only where the result has the type of what it
// replaces.
#pragma once
#include <utility>

#include "ir/builder.hpp"
#include "ir/match.hpp"
#include "passes/context.hpp"

namespace weft {

class Rewriting;

// A node that a pattern fits. Its operands are already rewritten, the node's own are those before the pass.
class Match {
 public:
  const Node& node;
  const std::span<const Tensor> operands;
  const PassContext& context;

  const Tensor& operator[](const pattern::Expression& letter) const { return *bound_[letter]; }
  Builder build() const { return Builder(node); }
  // How often the graph before the pass reads a value of it.
  int readers(const Tensor& value) const;

 private:
  friend class Rewriting;
  Match(const Node& node, std::span<const Tensor> operands, Rewriting& rewriting);
  Rewriting& rewriting_;
  Bindings bound_;
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
