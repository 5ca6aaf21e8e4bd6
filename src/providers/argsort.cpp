#include "codegen/cuda_functions.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/rows.hpp"
#include "runtime/cuda/selection.hpp"
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
    const DType dtype = stored_.what.dtype;
    const bool whole = stored_.what.count.same(stored_.what.size);
    return sources.add(whole ? codegen::cuda_argsort(dtype) : codegen::cuda_select(dtype));
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu) return StoredPayload::prepare(preparation);
    return runtime::cuda::device_order(stored_.what, preparation);
  }
};

class SortProvider final : public Provider {
 public:
  // On a device a part of an order where that is few elements from the first one on.
  bool takes(const Node& node, Device device) const override {
    if (node.op != Op::argsort) return false;
    const auto& order = node.attributes<Order>();
    if (device.type == Device::Type::cpu || is_whole(order)) return true;
    const Shape& shape = type_of(node.input(0)).shape;
    return runtime::cuda::selects({.size = shape[shape.rank() - 1], .first = order.first, .count = order.count});
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
