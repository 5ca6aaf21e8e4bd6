// Convolutions of 16-bit images on a device whose channels lie last and have a kernel each, by a kernel of our own.
// With it networks of such convolutions lie with their channels last.
#include "base/options.hpp"
#include "codegen/cuda_functions.hpp"
#include "providers/convolution.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/depthwise.hpp"

namespace weft::providers {

namespace {

class CudaDepthwisePayload final : public ConvolutionPayload {
 public:
  explicit CudaDepthwisePayload(const Candidate& candidate)
      : ConvolutionPayload(PlacedConvolution(candidate)), sizes_(expected(placed_.dims)) {}
  bool is_made() const { return runtime::cuda::is_depthwise(sizes_); }
  bool may_fail() const override { return !placed_.dims.known() || !placed_.dims.batch().is_constant(); }
  runtime::EntryPoint emit(providers::Sources& sources) const override {
    const auto two = [](const std::array<std::int64_t, 3>& from) { return std::array{from[0], from[1]}; };
    return sources.add(codegen::cuda_depthwise(
        {sizes_.dtype, two(sizes_.kernel), two(sizes_.strides), runtime::cuda::depthwise_tile}));
  }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::DeviceDepthwise>(placed_.dims, placed_.offsets, preparation);
  }

 private:
  runtime::ConvolutionSizes sizes_;
};

class CudaDepthwiseProvider final : public Provider {
 public:
  bool is_for_packages() const override { return false; }
  // What the library does where it lies in order.
  bool takes(const Node& node, Device device) const override {
    return gains_with_channels_last(node, device) && cudnn_convolution().takes(node, device);
  }
  bool gains_with_channels_last(const Node& node, Device device) const override {
    if (device.type != Device::Type::cuda || node.op != Op::convolution) return false;
    std::optional<runtime::ConvolutionDims> dims = convolution_dims(node);
    if (!dims) return false;
    runtime::ConvolutionSizes sizes = expected(*dims);
    if (sizes.axes != 2 || sizes.size[0] * sizes.size[1] == 1) return false;
    place_channels_last(sizes);
    return runtime::cuda::is_depthwise(sizes);
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    if (!gains_with_channels_last(candidate.node, candidate.device)) return std::nullopt;
    auto payload = std::make_shared<CudaDepthwisePayload>(candidate);
    if (!payload->is_made()) return std::nullopt;
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(60000), std::move(payload)};  // less than cuDNN's
  }
};

}  // namespace

const Provider& cuda_depthwise_convolution() {
  static constinit const CudaDepthwiseProvider provider;
  return provider;
}

}  // namespace weft::providers
