#include <algorithm>

#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

class UpdatePayload final : public Payload {
 public:
  explicit UpdatePayload(const Candidate& candidate) : dtype_(candidate.result().type.dtype) {
    const Shape &whole = candidate.result().type.shape, &part = candidate.operands[1].type.shape;
    const int axis = candidate.node.attributes<Along>().axis;
    for (int i = 0; i < axis; ++i) update_.outer = update_.outer * whole[i];
    for (int i = axis + 1; i < whole.rank(); ++i) update_.inner = update_.inner * whole[i];
    update_.size = whole[axis], update_.length = part[axis];
    update_.element = storage_bytes(info(dtype_), std::int64_t{1});
    for (const PlacedValue& operand : candidate.operands) update_.offsets.push_back(operand.offset);
    buffers_ = candidate.buffers();
  }
  explicit UpdatePayload(runtime::FieldReader& from) {
    from(dtype_, update_, checked_);
    if (update_.offsets.size() < 3) throw runtime::Malformed();
  }
  std::string stored_as() const override { return "update_slice"; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override { to(dtype_, update_, checked_); }
  std::string details() const override { return checked_ ? ", unless a check has failed" : ""; }
  loop::Cost cost() const override {
    const Dim elements = update_.outer * update_.length * update_.inner;
    return {storage_bytes(info(dtype_), elements * Dim(2)), 0};
  }
  // Where nothing else of the step reads the value.
  bool in_place(int argument, int result) const override {
    return argument == buffers_[0] && result == buffers_[3] && update_.offsets[0].same(Dim(0)) &&
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
    if (preparation.device.type == Device::Type::cpu)
      return std::make_unique<runtime::HostUpdate>(update_, preparation.numbers);
    return std::make_unique<runtime::cuda::DeviceUpdate>(update_, checked_, preparation);
  }

 private:
  DType dtype_;
  runtime::SliceUpdate update_;
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
  std::shared_ptr<const Payload> read(runtime::FieldReader& from) const override {
    return std::make_shared<UpdatePayload>(from);
  }
};

}  // namespace

const Provider& update_slice() {
  static constinit const UpdateProvider provider;
  return provider;
}

}  // namespace weft::providers
