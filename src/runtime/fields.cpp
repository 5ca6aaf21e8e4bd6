#include "runtime/fields.hpp"

#include "base/dim_expression.hpp"
#include "base/fail.hpp"

namespace weft::runtime {

namespace {
enum class Form : std::uint8_t { constant, symbol, floor_divide, modulo, sum };

// Sizes that somebody wrote have a few terms. A product of sums has as many as both make together.
void require_few(Dim a, Dim b = 1) {
  constexpr std::size_t most_terms = 256;
  if (dims::terms(a).size() * dims::terms(b).size() > most_terms) throw Malformed();
}
}  // namespace

void FieldWriter::put(const Dim& dim) {
  if (dim.is_constant()) return (*this)(Form::constant, dim.constant());
  const DimNode& node = *dim.node();
  switch (node.kind) {
    case DimKind::symbol: return (*this)(Form::symbol, node.number, node.lower.constant());
    case DimKind::floor_divide: return (*this)(Form::floor_divide, node.left, node.right);
    case DimKind::modulo: return (*this)(Form::modulo, node.left, node.right);
    case DimKind::sum:
      (*this)(Form::sum, node.terms.size());
      for (const DimTerm& term : node.terms) {
        (*this)(term.coefficient, term.factors.size());
        for (const DimNode* factor : term.factors) put(Dim::from_node(factor));
      }
      return;
    case DimKind::axis:
    case DimKind::value: break;
  }
  refuse("a size depends on " + dims::to_string(dim));
}

void FieldReader::get(Dim& dim) {
  const Nested nested(*this);
  const auto form = take<Form>();
  switch (form) {
    case Form::constant: dim = Dim(take<std::int64_t>()); return;
    case Form::symbol: {
      const int number = take<int>();
      dim = dims::symbol(number, take<std::int64_t>());
      return;
    }
    case Form::floor_divide:
    case Form::modulo: {
      const Dim left = take<Dim>(), right = take<Dim>();
      if (right.same(Dim(0))) throw Malformed();
      dim = form == Form::modulo ? left % right : left / right;
      return;
    }
    case Form::sum: {
      dim = 0;
      for (std::size_t terms = count(); terms > 0; --terms) {
        Dim product = take<std::int64_t>();
        std::size_t factors = count();
        if (factors > 64) throw Malformed();
        for (; factors > 0; --factors) {
          const Dim factor = take<Dim>();
          require_few(product, factor);
          product = product * factor;
        }
        dim = dim + product;
        require_few(dim);
      }
      return;
    }
  }
  throw Malformed();
}

}  // namespace weft::runtime
