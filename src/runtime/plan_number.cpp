#include "runtime/plan_number.hpp"

#include "base/fail.hpp"

namespace weft::runtime {

namespace {
constexpr int stack_size = 32;
}

NumberTable::Range NumberTable::add(std::span<const Dim> dims) {
  const Range range{constants_.size(), dims.size()};
  for (const Dim dim : dims) {
    constants_.push_back(dim.is_constant() ? dim.constant() : 0);
    if (dim.is_constant()) continue;
    compile(dim);
    push(Code::store, static_cast<std::int64_t>(constants_.size()) - 1, -1);
  }
  return range;
}

void NumberTable::push(Code code, std::int64_t operand, int change) {
  depth_ += change;
  WEFT_CHECK(depth_ <= stack_size, "a size that nests deeper than ", stack_size);
  program_.push_back({code, operand});
}

void NumberTable::compile(Dim dim) {
  if (dim.is_constant()) return push(Code::number, dim.constant(), 1);
  bool first_term = true;
  for (const DimTerm& term : dims::terms(dim)) {
    push(Code::number, term.coefficient, 1);
    for (const DimNode* factor : term.factors) {
      if (factor->kind == DimKind::floor_divide || factor->kind == DimKind::modulo) {
        compile(factor->left);
        compile(factor->right);
        push(factor->kind == DimKind::modulo ? Code::modulo : Code::floor_divide, 0, -1);
      } else {
        WEFT_CHECK(factor->kind == DimKind::symbol && static_cast<std::size_t>(factor->number) < symbols_,
                   "a plan's size depends on ", dims::to_string(dim));
        push(Code::symbol, factor->number, 1);
      }
      push(Code::multiply, 0, -1);
    }
    if (!first_term) push(Code::add, 0, -1);
    first_term = false;
  }
}

void NumberTable::evaluate(std::span<const std::int64_t> symbols, std::vector<std::int64_t>& table) const {
  std::int64_t stack[stack_size];
  std::int64_t* top = stack;  // one past
  for (const Step& step : program_) {
    switch (step.code) {
      case Code::number: *top++ = step.operand; break;
      case Code::symbol: *top++ = symbols[static_cast<std::size_t>(step.operand)]; break;
      case Code::store: table[static_cast<std::size_t>(step.operand)] = *--top; break;
      case Code::add:
        --top;
        top[-1] = (Dim(top[-1]) + Dim(*top)).constant();
        break;
      case Code::multiply:
        --top;
        top[-1] = (Dim(top[-1]) * Dim(*top)).constant();
        break;
      case Code::floor_divide:
      case Code::modulo: {
        --top;
        const Dim left = top[-1], right = *top;
        top[-1] = (step.code == Code::modulo ? left % right : left / right).constant();
        break;
      }
    }
  }
}

}  // namespace weft::runtime
