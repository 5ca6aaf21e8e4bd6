// Walks over expressions of sizes: which atoms are in one, others in their place, its value.
#include "base/dim_expression.hpp"
#include "base/fail.hpp"

namespace weft::dims {

bool any_atom(Dim dim, const std::function<bool(const DimNode&)>& predicate) {
  for (const DimTerm& term : terms(dim))
    for (const DimNode* factor : term.factors) {
      if (predicate(*factor)) return true;
      if (factor->kind == DimKind::floor_divide || factor->kind == DimKind::modulo)
        if (any_atom(factor->left, predicate) || any_atom(factor->right, predicate)) return true;
    }
  return false;
}

bool depends_on(Dim dim, Dim atom) {
  return any_atom(dim, [&](const DimNode& node) { return &node == atom.node(); });
}

Dim substitute(Dim dim, const std::function<Dim(const DimNode*)>& replacement) {
  if (dim.is_constant()) return dim;
  Dim total = 0;
  for (const DimTerm& term : terms(dim)) {
    Dim product = Dim(term.coefficient);
    for (const DimNode* factor : term.factors) {
      Dim replaced;
      if (factor->kind == DimKind::floor_divide)
        replaced = substitute(factor->left, replacement) / substitute(factor->right, replacement);
      else if (factor->kind == DimKind::modulo)
        replaced = substitute(factor->left, replacement) % substitute(factor->right, replacement);
      else
        replaced = replacement(factor);
      product = product * replaced;
    }
    total = total + product;
  }
  return total;
}

namespace {
std::int64_t evaluate_atom(const DimNode* node, const std::function<std::int64_t(const DimNode*)>& atom) {
  if (node->kind != DimKind::floor_divide && node->kind != DimKind::modulo) return atom(node);
  const Dim left = evaluate(node->left, atom), right = evaluate(node->right, atom);
  return (node->kind == DimKind::modulo ? left % right : left / right).constant();
}
}  // namespace

std::int64_t evaluate(Dim dim, const std::function<std::int64_t(const DimNode*)>& atom) {
  if (dim.is_constant()) return dim.constant();
  if (dim.node()->kind != DimKind::sum) return evaluate_atom(dim.node(), atom);
  Dim total = 0;
  for (const DimTerm& term : dim.node()->terms) {
    Dim product = term.coefficient;
    for (const DimNode* factor : term.factors) product *= evaluate_atom(factor, atom);
    total += product;
  }
  return total.constant();
}

std::int64_t evaluate(Dim dim, std::span<const std::int64_t> symbols) {
  return evaluate(dim, [&](const DimNode* atom) {
    WEFT_CHECK(atom->kind == DimKind::symbol && static_cast<std::size_t>(atom->number) < symbols.size());
    return symbols[static_cast<std::size_t>(atom->number)];
  });
}

}  // namespace weft::dims
