#include "ir/match.hpp"

#include <cmath>
#include <utility>

#include "ir/callee.hpp"

namespace weft {
namespace {

using pattern::Term;

bool commutes(const Term& term) { return term.op == Op::add || term.op == Op::mul; }

bool is_number(const Tensor& value, double number) {
  if (!is_uniform(value)) return false;
  const double held = value.node()->attributes<Constant>().as_number(type_of(value).dtype);
  return held == number && std::signbit(held) == std::signbit(number);
}

// These two move `at` past what they have read.
bool fits_value(const Term*& at, const Tensor& value, unsigned& order, Bindings& bindings);
bool fits_node(const Term*& at, const Node& node, std::span<const Tensor> operands, unsigned& order,
               Bindings& bindings) {
  const Term& term = *at++;
  if (node.op != term.op || node.output_count != 1 || term.operands != operands.size()) return false;
  if (term.composite && std::string_view(name_of(node)) != term.composite) return false;
  const std::size_t swapped = commutes(term) && (std::exchange(order, order >> 1) & 1);
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (!fits_value(at, operands[i ^ swapped], order, bindings)) return false;
  return true;
}
bool fits_value(const Term*& at, const Tensor& value, unsigned& order, Bindings& bindings) {
  switch (at->kind) {
    case Term::Kind::letter: {
      const Tensor*& bound = bindings.values[at++->letter];
      if (!bound) bound = &value;
      return bound->same(value);
    }
    case Term::Kind::number: return is_number(value, at++->number);
    case Term::Kind::operation: return fits_node(at, *value.node(), value.node()->inputs(), order, bindings);
  }
  return false;
}

}  // namespace

unsigned order_count(const pattern::Expression& pattern) {
  unsigned count = 1;
  for (const Term& term : pattern.terms)
    if (term.kind == Term::Kind::operation && commutes(term)) count *= 2;
  return count;
}

bool fits(const pattern::Expression& pattern, const Node& node, std::span<const Tensor> operands, unsigned order,
          Bindings& bindings) {
  bindings = {};
  const Term* at = pattern.terms;
  return at->kind == Term::Kind::operation && fits_node(at, node, operands, order, bindings);
}

}  // namespace weft
