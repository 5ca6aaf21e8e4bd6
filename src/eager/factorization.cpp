#include "ir/factorization.hpp"

#include "eager/eager.hpp"
#include "runtime/host/factorization.hpp"

namespace weft::eager {

std::vector<Value> execute_factorization(Op op, const Attributes& attributes, std::span<const Type> types,
                                         std::span<const Value> operands) {
  const Type &first = operands.front().type, &last = operands.back().type;
  const FactorizationSizes<Dim> sizes = factorization_sizes(op, attributes, first.shape, last.shape);
  std::vector<Value> contiguous, results;
  std::vector<void*> buffers;
  for (const Value& operand : operands) contiguous.push_back(make_contiguous(operand));
  for (const Type& type : types) results.push_back(make_value(type));
  for (const auto* values : {&contiguous, &results})
    for (const Value& value : *values) buffers.push_back(value.data());
  runtime::factorize(factorization_of(op, attributes, first.dtype),
                     {sizes.batch.constant(), sizes.rows.constant(), sizes.columns.constant(), sizes.sides.constant()},
                     buffers.data());
  return results;
}

}  // namespace weft::eager
