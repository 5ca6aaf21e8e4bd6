// Products on the CPU by oneDNN, where it is installed: bf16 with the CPU's own instructions for it, with a layer's
// bias too, and large ones of f32.
#include "providers/product.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/host/onednn_product.hpp"

namespace weft::providers {

namespace {

// Making its primitives takes milliseconds, once in each process: smaller products are not worth it.
constexpr std::int64_t least_f32 = std::int64_t{1} << 28, least_bf16 = std::int64_t{1} << 20;  // multiplications

class OneDnnPayload final : public StoredPayload<runtime::StoredOneDnnProduct, Product> {
 public:
  OneDnnPayload(const Candidate& candidate, const runtime::onednn::Library& library)
      : StoredPayload(runtime::StoredOneDnnProduct(contraction_of(candidate), library), candidate) {}
  bool is_made() const { return stored_.is_made(); }
};

class OneDnnProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cpu) return false;
    const std::optional<DType> plain = multiplied(node), dtype = plain ? plain : multiplied_with_bias(node);
    const std::int64_t least = dtype == DType::f32 ? least_f32 : dtype == DType::bf16 ? least_bf16 : 0;
    if (least == 0 || multiplications(node) < least) return false;
    const runtime::onednn::Library* library = runtime::onednn::library();
    return library && runtime::onednn::is_fast(*library, *dtype);
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    if (strides.size() == 1) return has_unit_stride(shape, strides);
    return runtime::ProductTiles::reads(shape, strides);
  }
  bool reads_chosen() const override { return true; }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    const runtime::onednn::Library* library = runtime::onednn::library();
    auto payload = std::make_shared<OneDnnPayload>(candidate, *library);
    if (!payload->is_made()) return std::nullopt;
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(candidate.operands[0].type.dtype == DType::bf16 ? 500 : 60), std::move(payload)};
  }
};

}  // namespace

const Provider& onednn_matmul() {
  static constinit const OneDnnProvider provider;
  return provider;
}

}  // namespace weft::providers
