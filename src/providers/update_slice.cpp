#include <algorithm>

#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

runtime::SliceUpdate update_of(const Candidate& candidate) {
  const Shape &whole = candidate.result().type.shape, &part = candidate.operands[1].type.shape;
  const int axis = candidate.node.attributes<Along>().axis;
  runtime::SliceUpdate update;
  for (int i = 0; i < axis; ++i) update.outer = update.outer * whole[i];
  for (int i = axis + 1; i < whole.rank(); ++i) update.inner = update.inner * whole[i];
  update.size = whole[axis], update.length = part[axis];
  update.element = storage_bytes(info(candidate.result().type.dtype), std::int64_t{1});
  for (const PlacedValue& operand : candidate.operands) update.offsets.push_back(operand.offset);
  return update;
}

class UpdatePayload final : public StoredPayload<runtime::StoredSliceUpdate> {
 public:
  explicit UpdatePayload(const Candidate& candidate)
      : StoredPayload(runtime::StoredSliceUpdate(update_of(candidate))),
        dtype_(candidate.result().type.dtype),
        buffers_(candidate.buffers()) {}
  std::string details() const override { return checked_ ? ", unless a check has failed" : ""; }
  // Where nothing else of the step reads the value.
  bool in_place(int argument, int result) const override {
    return argument == buffers_[0] && result == buffers_[3] && stored_.what.offsets[0].same(Dim(0)) &&
           std::count(buffers_.begin(), buffers_.end(), argument) == 1;
  }
  std::shared_ptr<const Payload> predicated(int) const override {
    auto checked = std::make_shared<UpdatePayload>(*this);
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
    const std::string name = codegen::cuda_update_slice_name(dtype_, checked_);
    sources.add(name, codegen::cuda_update_slice(dtype_, checked_));
    return {name};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu) return StoredPayload::prepare(preparation);
    return std::make_unique<runtime::cuda::DeviceUpdate>(stored_.what, checked_, preparation);
  }

 private:
  DType dtype_;
  std::vector<int> buffers_;
  bool checked_ = false;
};

class UpdateProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return node.op == Op::update_slice; }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return is_row_major(shape, strides); }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<UpdatePayload>(candidate);
    const Dim bytes = payload->cost().bytes;
    return Offer{bytes / Dim(8), std::move(payload)};
  }
};

}  // namespace

const Provider& update_slice() {
  static constinit const UpdateProvider provider;
  return provider;
}

}  // namespace weft::providers
