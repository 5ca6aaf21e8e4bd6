#include "codegen/cuda_functions.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/rows.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

runtime::ScatterFields fields_of(const Candidate& candidate) {
  const Type& table = candidate.result().type;
  runtime::ScatterFields fields;
  fields.join = candidate.node.op == Op::scatter_add ? runtime::RowJoin::add : runtime::RowJoin::greatest;
  fields.dtype = table.dtype, fields.rows = table.shape[0];
  fields.count = candidate.operands[0].type.shape.element_count();
  for (int i = 1; i < table.shape.rank(); ++i) fields.width = fields.width * table.shape[i];
  return fields;
}

class ScatterPayload final : public StoredPayload<runtime::StoredScatter> {
 public:
  explicit ScatterPayload(const Candidate& candidate)
      : StoredPayload(runtime::StoredScatter(fields_of(candidate))), op_(candidate.node.op) {}
  std::string details() const override { return op_ == Op::scatter_add ? "" : " of the greatest"; }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (sources.device().type == Device::Type::cpu) return {};
    const DType dtype = stored_.what.dtype;
    const bool adds = op_ == Op::scatter_add;
    return sources.add(adds ? codegen::cuda_update_rows(dtype, true, false) : codegen::cuda_scatter_amax(dtype));
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.device.type == Device::Type::cpu) return StoredPayload::prepare(preparation);
    return std::make_unique<runtime::cuda::DeviceScatter>(stored_.what, preparation);
  }

 private:
  Op op_;
};

class ScatterProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return is_scatter(node.op); }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<ScatterPayload>(candidate);
    const Dim bytes = payload->cost().bytes;
    return Offer{bytes / Dim(8), std::move(payload)};
  }
};

}  // namespace

const Provider& scatter() {
  static constinit const ScatterProvider provider;
  return provider;
}

}  // namespace weft::providers
