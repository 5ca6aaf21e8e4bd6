// Convolutions and their gradients on the CPU by oneDNN, where it is installed: of f32 with AVX2, of bf16 with the
// CPU's own instructions for it.
#include "runtime/host/onednn_convolution.hpp"

#include "providers/convolution.hpp"

namespace weft::providers {

namespace {

using runtime::ConvolutionSizes;
using Made = std::shared_ptr<const runtime::onednn::Convolution>;

class OneDnnPayload final : public ConvolutionPayload {
 public:
  OneDnnPayload(const Candidate& candidate, const runtime::onednn::Library& library)
      : ConvolutionPayload(candidate),
        name_(runtime::onednn::name(library)),
        made_(runtime::onednn::Convolution::find(library, sizes_)) {}
  bool is_made() const { return made_ != nullptr; }
  std::string text() const override { return ConvolutionPayload::text() + " by " + name_; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::OneDnnConvolution>(made_, sizes_.dtype, batch_, offsets_, preparation.numbers);
  }

 private:
  std::string name_;
  Made made_;
};

class OneDnnProvider final : public Provider {
 public:
  const char* name() const override { return "onednn_convolution"; }
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cpu || info(node.op).kind != OpKind::convolution) return false;
    const runtime::onednn::Library* library = runtime::onednn::library();
    if (!library || !runtime::onednn::convolves_fast(*library, node.type.dtype)) return false;
    const std::optional<ConvolutionSizes> sizes = convolution_sizes(node);
    return sizes && !is_product(*sizes) && runtime::onednn::Convolution::find(*library, *sizes);
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override {
    return runtime::convolution_reads(shape, strides);
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<OneDnnPayload>(candidate, *runtime::onednn::library());
    if (!payload->is_made()) return std::nullopt;
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(50), std::move(payload)};
  }

 private:
  // A kernel of one element at every position: a matrix product reads its operands where they lie.
  static bool is_product(const ConvolutionSizes& sizes) {
    if (sizes.result == runtime::Convolved::weight || sizes.groups != 1) return false;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(sizes.axes); ++axis)
      if (sizes.kernel[axis] != 1 || sizes.strides[axis] != 1 || sizes.low[axis] + sizes.high[axis] != 0) return false;
    return true;
  }
};

}  // namespace

const Provider& onednn_convolution() {
  static constinit const OneDnnProvider provider;
  return provider;
}

}  // namespace weft::providers
