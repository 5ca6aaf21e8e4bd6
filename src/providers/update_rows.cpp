#include <algorithm>

#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/steps.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

class RowsPayload final : public Payload {
 public:
  explicit RowsPayload(const Candidate& candidate) {
    const auto [axis, adds] = candidate.node.attributes<RowUpdate>();
    const Shape& table = candidate.result().type.shape;
    update_.dtype = candidate.result().type.dtype, update_.adds = adds;
    for (int i = 0; i < axis; ++i) update_.outer = update_.outer * table[i];
    for (int i = axis + 1; i < table.rank(); ++i) update_.inner = update_.inner * table[i];
    update_.rows = table[axis], update_.count = candidate.operands[1].type.shape[axis];
    for (const PlacedValue& operand : candidate.operands) update_.offsets.push_back(operand.offset);
    buffers_ = candidate.buffers();
  }
  explicit RowsPayload(runtime::FieldReader& from) {
    from(update_, checked_);
    if (update_.offsets.size() < 3) throw runtime::Malformed();
  }
  std::string stored_as() const override { return "update_rows"; }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint&) const override { to(update_, checked_); }
  std::string details() const override {
    return std::string(update_.adds ? " of sums" : "") + (checked_ ? ", unless a check has failed" : "");
  }
  loop::Cost cost() const override {
    const Dim elements = update_.outer * update_.count * update_.inner;
    return {storage_bytes(info(update_.dtype), elements * Dim(update_.adds ? 3 : 2)), update_.adds ? elements : Dim(0)};
  }
  // Where nothing else of the step reads the table.
  bool in_place(int argument, int result) const override {
    return argument == buffers_[0] && result == buffers_[3] && update_.offsets[0].same(Dim(0)) &&
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
    const std::string name = codegen::cuda_update_rows_name(update_.dtype, update_.adds, checked_);
    sources.add(name, codegen::cuda_update_rows(update_.dtype, update_.adds, checked_));
    return {name};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu)
      return std::make_unique<runtime::HostRows>(update_, preparation.numbers);
    return std::make_unique<runtime::cuda::DeviceRows>(update_, checked_, preparation);
  }

 private:
  runtime::RowsUpdate update_;
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
  std::shared_ptr<const Payload> read(runtime::FieldReader& from) const override {
    return std::make_shared<RowsPayload>(from);
  }
};

}  // namespace

const Provider& update_rows() {
  static constinit const RowsProvider provider;
  return provider;
}

}  // namespace weft::providers
