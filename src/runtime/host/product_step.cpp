#include "runtime/host/steps.hpp"

#include "runtime/steps.hpp"

namespace weft::runtime {

std::size_t HostProduct::workspace(std::span<const std::int64_t> numbers) const {
  return matmul_workspace(product_.product(numbers));
}
void HostProduct::run(const StepCall& call) const {
  const ProductNumbers::Operands at = product_.first(call.pointers, call.numbers);
  matmul(product_.product(call.numbers, at), at.a, at.b, at.c, call.workspace);
}

StepCost cost_of(const Contraction& product) {
  const Contraction& c = product;
  Dim batches = 1;
  for (const Dim size : c.batch) batches = batches * size;
  const Dim read = (c.m * c.k + c.k * c.n) * batches + (c.has_bias ? c.n : Dim(0)), written = c.m * c.n * batches;
  return {storage_bytes(info(c.dtype), read) + storage_bytes(info(c.result_dtype()), written),
          Dim(2) * c.m * c.n * c.k * batches};
}

void check(const Contraction& product) {
  const std::size_t axes = product.batch.size();
  const bool one_axis = axes == 1 || !(product.a_is_chosen() || product.b_is_chosen());
  if (product.a_batch.size() != axes || product.b_batch.size() != axes || product.c_batch.size() != axes || !one_axis ||
      (product.has_bias && axes > 0))
    throw Malformed();
}

std::unique_ptr<Runnable> StoredProduct::prepare(const Preparation& preparation) const {
  return std::make_unique<HostProduct>(what, preparation.numbers);
}

const NamedStep steps::packed_matmul{StoredProduct::name, StoredProduct::read};

}  // namespace weft::runtime
