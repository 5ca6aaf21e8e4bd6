#include "loop/index_width.hpp"

#include <algorithm>

namespace weft::loop {

namespace {

// The largest absolute value of an index, or nothing if a symbol has no bound. `largest` becomes the largest value of
// any part of it.
std::optional<double> magnitude(Dim dim, double& largest, const SymbolBound& symbol) {
  double total = 0;
  for (const DimTerm& term : dims::terms(dim)) {
    double product =
        term.coefficient < 0 ? -static_cast<double>(term.coefficient) : static_cast<double>(term.coefficient);
    for (const DimNode* factor : term.factors) {
      std::optional<double> bound;
      switch (factor->kind) {
        case DimKind::axis:
        case DimKind::value: bound = magnitude(factor->extent, largest, symbol); break;
        case DimKind::floor_divide:
        case DimKind::modulo: {
          const std::optional<double> left = magnitude(factor->left, largest, symbol),
                                      right = magnitude(factor->right, largest, symbol);
          if (!left || !right) break;
          const bool divides = factor->kind == DimKind::floor_divide;
          bound = !factor->right.is_constant() ? std::max(*left, *right) : divides ? *left / *right + 1 : *right;
          break;
        }
        case DimKind::sum: bound = magnitude(Dim::from_node(factor), largest, symbol); break;
        case DimKind::symbol:
          if (symbol) bound = symbol(*factor);
          break;
      }
      if (!bound) return std::nullopt;
      product *= *bound;
    }
    total += product;
  }
  largest = std::max(largest, total);
  return total;
}

}  // namespace

bool fits_32_bits(const Kernel& kernel, const SymbolBound& bound) {
  if (kernel.small) return true;
  constexpr double small_index = 1 << 30;
  double points = 1;
  for (const Axis& axis : kernel.axes) {
    double largest = 0;
    const std::optional<double> extent = magnitude(axis.extent, largest, bound);
    if (!extent || largest > small_index) return false;
    points *= *extent;
  }
  if (points > small_index) return false;
  for (const Instruction& instruction : kernel.body) {
    double largest = 0;
    if (!magnitude(instruction.index, largest, bound) || largest > small_index) return false;
  }
  return true;
}

}  // namespace weft::loop
