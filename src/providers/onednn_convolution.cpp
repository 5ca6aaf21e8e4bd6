// Convolutions and their gradients on the CPU by oneDNN, where it is installed: of f32 with AVX2, of bf16 with the
// CPU's own instructions for it.
#include "runtime/host/onednn_convolution.hpp"

#include "providers/convolution.hpp"
#include "providers/stored_payload.hpp"

namespace weft::providers {

namespace {

using runtime::ConvolutionSizes;

// One serves all batches, but for a weight's gradient.
ConvolutionSizes served(const runtime::ConvolutionDims& dims) {
  ConvolutionSizes sizes = expected(dims);
  if (!dims.batch().is_constant() && sizes.result != runtime::Convolved::weight) sizes.batch = -1;
  return sizes;
}

class OneDnnPayload final : public StoredPayload<runtime::StoredOneDnnConvolution, ConvolutionPayload> {
 public:
  OneDnnPayload(const PlacedConvolution& placed, const runtime::onednn::Library& library)
      : StoredPayload(
            runtime::StoredOneDnnConvolution({placed.dims, placed.offsets, placed.cost, served(placed.dims)}, library),
            placed) {}
  bool is_made() const { return stored_.is_made(); }
  bool may_fail() const override { return !stored_.is_known(); }  // else its primitives are made in the call
};

class OneDnnProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cpu || info(node.op).kind != OpKind::convolution) return false;
    const runtime::onednn::Library* library = runtime::onednn::library();
    if (!library || !runtime::onednn::convolves_fast(*library, type_of(node.input(0)).dtype)) return false;
    const std::optional<runtime::ConvolutionDims> dims = convolution_dims(node);
    if (!dims) return false;
    const ConvolutionSizes sizes = served(*dims);
    // A product reads its operands where they lie, and of some positions alone a copy of these, which costs less than
    // what the library loses where it steps over positions.
    return !is_product(sizes) && runtime::onednn::Convolution::find(*library, sizes);
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    return runtime::convolution_reads(shape, strides);
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<OneDnnPayload>(PlacedConvolution(candidate), *runtime::onednn::library());
    if (!payload->is_made()) return std::nullopt;
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(50), std::move(payload)};
  }
};

}  // namespace

const Provider& onednn_convolution() {
  static constinit const OneDnnProvider provider;
  return provider;
}

}  // namespace weft::providers
