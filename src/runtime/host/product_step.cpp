#include "runtime/host/steps.hpp"

#include "runtime/steps.hpp"

namespace weft::runtime {

std::size_t HostProduct::workspace(std::span<const std::int64_t> numbers) const {
  return matmul_workspace(product_.product(numbers));
}
void HostProduct::run_packed(const StepCall& call, const std::byte* const* packed) const {
  const ProductNumbers::Operands at = product_.first(call.pointers, call.numbers);
  Matmul product = product_.product(call.numbers, at);
  if (packed) {
    product.a_packed = {packed[0], operands_[0].packing.is_left};
    product.b_packed = {packed[1], operands_[1].packing.is_left};
  }
  matmul(product, at.a, at.b, at.c, call.workspace);
}

HostProduct::HostProduct(const Contraction& contraction, NumberTable& numbers)
    : product_(contraction, numbers), operands_{operand_of(contraction, false), operand_of(contraction, true)} {}

// A matrix of known size and place, the same one for all items of a batch, which lies by rows or by columns, and none
// of whose elements is read in two places.
HostProduct::Operand HostProduct::operand_of(const Contraction& c, bool is_b) {
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const Dim one = 1, size = is_b ? c.n : c.m, size_step = is_b ? c.b_column : c.a_row,
            depth_step = is_b ? c.b_row : c.a_column, offset = is_b ? c.b_offset : c.a_offset;
  const bool by_rows = c.c_column.same(one), by_columns = c.c_row.same(one);
  if (by_rows == by_columns || c.m.same(one) || c.n.same(one) || (is_b ? c.b_is_chosen() : c.a_is_chosen())) return {};
  for (const Dim stride : is_b ? c.b_batch : c.a_batch)
    if (!stride.same(Dim(0))) return {};
  for (const Dim dim : {size, c.k, size_step, depth_step, offset})
    if (!dim.is_constant() || dim.constant() < 0 || dim.constant() >= most) return {};
  // Which way tiles lie is known where both sizes are.
  const bool known = c.m.is_constant() && c.n.is_constant();
  const bool a_left = known ? a_is_left(c.dtype, c.m.constant(), c.n.constant(), by_rows) : !by_rows;
  const MatmulPacking packing{c.dtype,        a_left != is_b,       size.constant(),
                              c.k.constant(), size_step.constant(), depth_step.constant()};
  const bool is_matrix = (packing.size_step == 1 && packing.depth_step >= packing.size) ||
                         (packing.depth_step == 1 && packing.size_step >= packing.depth);
  if (packing.size < 2 || packing.depth < 2 || !is_matrix || packing.size > most / packing.depth) return {};
  return {packing, offset.constant()};
}

std::size_t HostProduct::packed_bytes(std::size_t buffer) const {
  return buffer < 2 ? runtime::packed_bytes(operands_[buffer].packing) : 0;
}
Digest HostProduct::packed_as(std::size_t buffer) const {
  const auto& [packing, offset] = operands_[buffer];
  const std::int64_t fields[] = {static_cast<std::int64_t>(packing.dtype),
                                 packing.is_left,
                                 packing.size,
                                 packing.depth,
                                 packing.size_step,
                                 packing.depth_step,
                                 offset};
  return digest({reinterpret_cast<const char*>(fields), sizeof fields});
}
void HostProduct::pack(std::size_t buffer, const StepCall& call, std::byte* to) const {
  const auto& [packing, offset] = operands_[buffer];
  runtime::pack(packing,
                static_cast<const std::byte*>(call.pointers[buffer]) + storage_bytes(info(packing.dtype), offset), to);
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
      (product.has_bias && axes > 0) || only_holds(product.dtype))
    throw Malformed();
}

std::unique_ptr<Runnable> StoredProduct::prepare(const Preparation& preparation) const {
  return std::make_unique<HostProduct>(what, preparation.numbers);
}

const NamedStep steps::packed_matmul{StoredProduct::name, StoredProduct::read};

}  // namespace weft::runtime
