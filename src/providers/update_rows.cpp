#include "codegen/cuda_functions.hpp"
#include "providers/update_payload.hpp"
#include "runtime/cuda/rows.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

runtime::RowsUpdate update_of(const Candidate& candidate) {
  const auto [axis, adds] = candidate.node.attributes<RowUpdate>();
  const Shape& table = candidate.result().type.shape;
  runtime::RowsUpdate update;
  update.dtype = candidate.result().type.dtype, update.adds = adds;
  for (int i = 0; i < axis; ++i) update.outer = update.outer * table[i];
  for (int i = axis + 1; i < table.rank(); ++i) update.inner = update.inner * table[i];
  update.rows = table[axis], update.count = candidate.operands[1].type.shape[axis];
  for (const PlacedValue& operand : candidate.operands) update.offsets.push_back(operand.offset);
  return update;
}

class RowsPayload final : public UpdatePayload<RowsPayload, runtime::StoredRowsUpdate> {
 public:
  using OnDevice = runtime::cuda::DeviceRows;
  explicit RowsPayload(const Candidate& candidate)
      : UpdatePayload(runtime::StoredRowsUpdate(update_of(candidate)), candidate) {}
  std::string details() const override { return (stored_.what.adds ? " of sums" : "") + UpdatePayload::details(); }
  codegen::CudaFunction function(bool checked) const {
    return codegen::cuda_update_rows(stored_.what.dtype, stored_.what.adds, checked);
  }
};

}  // namespace

const Provider& update_rows() {
  static constinit const UpdateProvider<RowsPayload, Op::update_rows> provider;
  return provider;
}

}  // namespace weft::providers
