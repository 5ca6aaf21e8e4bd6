#include "codegen/cuda.hpp"
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
  std::pair<std::string, std::string> function(bool checked) const {
    const DType dtype = stored_.what.dtype;
    const bool adds = stored_.what.adds;
    return {codegen::cuda_update_rows_name(dtype, adds, checked), codegen::cuda_update_rows(dtype, adds, checked)};
  }
};

}  // namespace

const Provider& update_rows() {
  static constinit const UpdateProvider<RowsPayload, Op::update_rows> provider;
  return provider;
}

}  // namespace weft::providers
