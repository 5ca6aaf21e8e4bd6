#include "codegen/cuda.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/rows.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

bool is_whole(const Order& order) { return order.count.same(Dim(0)); }

runtime::SortFields fields_of(const Candidate& candidate) {
  const auto& order = candidate.node.attributes<Order>();
  const Type& values = candidate.operands[0].type;
  runtime::SortFields fields;
  fields.dtype = values.dtype, fields.descending = order.descending;
  fields.size = values.shape[values.shape.rank() - 1];
  fields.first = is_whole(order) ? Dim(0) : order.first;
  fields.count = is_whole(order) ? fields.size : order.count;
  for (int i = 0; i + 1 < values.shape.rank(); ++i) fields.rows = fields.rows * values.shape[i];
  return fields;
}

class SortPayload final : public StoredPayload<runtime::StoredSort> {
 public:
  explicit SortPayload(const Candidate& candidate) : StoredPayload(runtime::StoredSort(fields_of(candidate))) {}
  std::string details() const override { return stored_.what.descending ? " descending" : ""; }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (sources.device().type == Device::Type::cpu) return {};
    const std::string name = codegen::cuda_argsort_name(stored_.what.dtype);
    sources.add(name, codegen::cuda_argsort(stored_.what.dtype));
    return {name};
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu) return StoredPayload::prepare(preparation);
    return std::make_unique<runtime::cuda::DeviceSort>(stored_.what, preparation);
  }
};

class SortProvider final : public Provider {
 public:
  // A part of an order on the host alone.
  bool takes(const Node& node, Device device) const override {
    return node.op == Op::argsort && (device.type == Device::Type::cpu || is_whole(node.attributes<Order>()));
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<SortPayload>(candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations, std::move(payload)};
  }
};

}  // namespace

const Provider& argsort() {
  static constinit const SortProvider provider;
  return provider;
}

}  // namespace weft::providers
