// Whether a node is what a pattern (weft/pattern.hpp) says. In: a pattern, a node, its operands. Out: what the letters
// stand for.
#pragma once
#include <span>

#include "ir/node.hpp"
#include "weft/pattern.hpp"

namespace weft {

// By letter: the value that it stands for; null where the pattern has no such letter.
struct Bindings {
  const Tensor* values[pattern::letters.size()] = {};
  const Tensor* operator[](const pattern::Expression& letter) const { return values[letter.terms[0].letter]; }
};

// In how many orders its operands can be: twice as many for each operation that commutes.
unsigned order_count(const pattern::Expression& pattern);
// Whether the pattern fits a node over these operands in one of its orders; bit i of `order` swaps the operands of the
// i-th operation that commutes.
bool fits(const pattern::Expression& pattern, const Node& node, std::span<const Tensor> operands, unsigned order,
          Bindings& bindings);

// True for a constant whose every element is the number in its attributes (not a symbolic size).
inline bool is_uniform(const Tensor& value) {
  return value.node()->op == Op::constant && !value.node()->attributes<Constant>().is_size();
}

}  // namespace weft
