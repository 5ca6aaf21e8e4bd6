#include <algorithm>

#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/steps.hpp"
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

class RowsPayload final : public StoredPayload<runtime::StoredRowsUpdate> {
 public:
  explicit RowsPayload(const Candidate& candidate)
      : StoredPayload(runtime::StoredRowsUpdate(update_of(candidate))), buffers_(candidate.buffers()) {}
  std::string details() const override {
    return std::string(stored_.what.adds ? " of sums" : "") + (checked_ ? ", unless a check has failed" : "");
  }
  // Where nothing else of the step reads the table.
  bool in_place(int argument, int result) const override {
    return argument == buffers_[0] && result == buffers_[3] && stored_.what.offsets[0].same(Dim(0)) &&
           std::count(buffers_.begin(), buffers_.end(), argument) == 1;
  }
  std::shared_ptr<const Payload> predicated(int) const override {
    auto checked = std::make_shared<RowsPayload>(*this);
    checked->checked_ = true;
    return checked;
  }
  std::vector<bool> writes(std::size_t buffers) const override {
    std::vector<bool> all(buffers, false);
    all[3] = true;
    return all;
  }
  runtime::EntryPoint emit(Sources& sources) const override {
    if (sources.device().type == Device::Type::cpu) return {};
    const std::string name = codegen::cuda_update_rows_name(stored_.what.dtype, stored_.what.adds, checked_);
    sources.add(name, codegen::cuda_update_rows(stored_.what.dtype, stored_.what.adds, checked_));
    return {name};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu) return StoredPayload::prepare(preparation);
    return std::make_unique<runtime::cuda::DeviceRows>(stored_.what, checked_, preparation);
  }

 private:
  std::vector<int> buffers_;
  bool checked_ = false;
};

class RowsProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return node.op == Op::update_rows; }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return is_row_major(shape, strides); }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<RowsPayload>(candidate);
    const Dim bytes = payload->cost().bytes;
    return Offer{bytes / Dim(8), std::move(payload)};
  }
};

}  // namespace

const Provider& update_rows() {
  static constinit const RowsProvider provider;
  return provider;
}

}  // namespace weft::providers
