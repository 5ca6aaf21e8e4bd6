#include "providers/product.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/host/steps.hpp"

namespace weft::providers {

namespace {

class PackedPayload final : public StoredPayload<runtime::StoredProduct, Product> {
 public:
  explicit PackedPayload(const Candidate& candidate)
      : StoredPayload(runtime::StoredProduct(contraction_of(candidate)), candidate) {}
};

class PackedProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    const std::optional<DType> dtype = multiplied(node);
    return device.type == Device::Type::cpu && (dtype == DType::f32 || dtype == DType::f64);
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    return has_unit_stride(shape, strides);
  }
  bool reads_chosen() const override { return true; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<PackedPayload>(candidate);
    const Dim operations = payload->cost().operations;
    // GFLOP/s. A constant is packed once; libraries pack it in each call.
    const bool once = candidate.operands[0].is_constant || candidate.operands[1].is_constant;
    return Offer{operations / Dim(once ? 62 : 50), std::move(payload)};
  }
};

}  // namespace

const Provider& packed_matmul() {
  static constinit const PackedProvider provider;
  return provider;
}

}  // namespace weft::providers
