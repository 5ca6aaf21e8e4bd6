// Expressions over sizes as text.
#include "base/dim_expression.hpp"

namespace weft::dims {

std::string to_text(Dim dim, const std::function<std::string(const DimNode*)>& name) {
  if (dim.is_constant()) return std::to_string(dim.constant());
  std::string text;
  for (const DimTerm& term : terms(dim)) {
    std::int64_t coefficient = term.coefficient;
    if (!text.empty()) {
      text += coefficient < 0 ? " - " : " + ";
      coefficient = coefficient < 0 ? -coefficient : coefficient;
    }
    if (term.factors.empty()) {
      text += std::to_string(coefficient);
      continue;
    }
    if (coefficient == -1)
      text += "-";
    else if (coefficient != 1)
      text += std::to_string(coefficient) + "*";
    bool first = true;
    for (const DimNode* factor : term.factors) {
      if (!first) text += "*";
      first = false;
      if (factor->kind == DimKind::floor_divide || factor->kind == DimKind::modulo) {
        bool divide = factor->kind == DimKind::floor_divide;
        std::string left = to_text(factor->left, name), right = to_text(factor->right, name);
        if (proves_nonnegative(factor->left) && proves_less(Dim(0), factor->right))
          text += "((" + left + (divide ? ") / (" : ") % (") + right + "))";
        else
          text += std::string(divide ? "floor_divide(" : "modulo(") + left + ", " + right + ")";
      } else {
        text += name(factor);
      }
    }
  }
  return text.empty() ? "0" : text;
}

std::string to_string(Dim dim) {
  if (dim.same(Dim(INT64_MIN))) return "-2^62";
  if (dim.same(Dim(INT64_MAX)) || dim.same(Dim::end())) return "2^62";
  return to_text(dim, [](const DimNode* atom) {
    return (atom->kind == DimKind::symbol ? "s"
            : atom->kind == DimKind::axis ? "i"
                                          : "v") +
           std::to_string(atom->number);
  });
}

}  // namespace weft::dims
