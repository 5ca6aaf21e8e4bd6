#include "ir/factorization.hpp"

#include "codegen/cuda_functions.hpp"
#include "providers/provider.hpp"
#include "providers/sources.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/cuda/factorization.hpp"
#include "runtime/cuda/fourier.hpp"
#include "runtime/factorization.hpp"

namespace weft::providers {

namespace {

runtime::FactorizationFields fields_of(const Candidate& candidate) {
  const Node& node = candidate.node;
  runtime::FactorizationFields fields;
  fields.what = factorization_of(node.op, node.attributes(), candidate.operands[0].type.dtype);
  fields.sizes = factorization_sizes(node.op, node.attributes(), candidate.operands.front().type.shape,
                                     candidate.operands.back().type.shape);
  fields.operands = candidate.operands.size();
  for (const auto* values : {&candidate.operands, &candidate.results})
    for (const PlacedValue& value : *values)
      fields.bytes.push_back(storage_bytes(info(value.type.dtype), value.type.shape.element_count()));
  return fields;
}

class FactorizationPayload final : public StoredPayload<runtime::StoredFactorization> {
 public:
  explicit FactorizationPayload(const Candidate& candidate)
      : StoredPayload(runtime::StoredFactorization(fields_of(candidate))),
        device_(candidate.device),
        attributes_(candidate.node.attributes().to_text(stored_.what.what.dtype)) {}
  bool may_fail() const override { return true; }  // it allocates
  std::string details() const override { return attributes_.empty() ? "" : " " + attributes_; }
  std::string by() const override {
    if (!has_device_library(device_)) return StoredPayload::by();
    return is_transform() ? "cuFFT" : "cuSOLVER";
  }
  std::vector<bool> writes(std::size_t buffers) const override {
    std::vector<bool> all(buffers, true);
    for (std::size_t i = 0; i < stored_.what.operands; ++i) all[i] = false;
    return all;
  }
  // Where the device has a library: the function that makes its operands.
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    if (!has_device_library(sources.device())) return {};
    const bool transforms = is_transform();
    const DType dtype = stored_.what.what.dtype;
    return sources.add(transforms ? codegen::cuda_fourier(dtype) : codegen::cuda_matrices(dtype));
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    if (preparation.entry.name.empty()) return StoredPayload::prepare(preparation);
    const auto& [what, sizes, operands, bytes] = stored_.what;
    if (is_transform())
      return std::make_unique<runtime::cuda::DeviceFourier>(what, sizes.batch, sizes.columns, preparation);
    return std::make_unique<runtime::cuda::DeviceFactorization>(what, sizes, bytes, operands, preparation);
  }

 private:
  bool is_transform() const { return stored_.what.what.is_transform(); }
  // The host does what the device has no library for.
  bool has_device_library(Device device) const {
    const Factorization::Kind kind = stored_.what.what.kind;
    if (device.type == Device::Type::cpu || kind == Factorization::Kind::eig || kind == Factorization::Kind::ldl)
      return false;
    return is_transform() ? runtime::cuda::fft_available() : runtime::cuda::solver_available();
  }

  Device device_;
  std::string attributes_;
};

class FactorizationProvider final : public Provider {
 public:
  bool takes(const Node& node, Device) const override { return info(node.op).kind == OpKind::factorization; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<FactorizationPayload>(candidate);
    const Dim operations = payload->cost().operations;
    return Offer{operations, std::move(payload)};
  }
};

}  // namespace

const Provider& factorization() {
  static constinit const FactorizationProvider provider;
  return provider;
}

}  // namespace weft::providers
