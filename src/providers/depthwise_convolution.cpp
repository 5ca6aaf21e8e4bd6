// Convolutions of f32 images on the CPU whose channels have a kernel each, by a kernel of our own.
#include <algorithm>

#include "providers/convolution.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/host/depthwise.hpp"
#include "runtime/host/isa.hpp"

namespace weft::providers {

namespace {

using runtime::DepthwiseSizes;

using Stored = runtime::StoredDepthwise;

std::optional<DepthwiseSizes> placed_sizes(const PlacedConvolution& placed) {
  const auto known = placed.dims.known();
  if (!known || !std::ranges::all_of(placed.offsets, [](const Dim offset) { return offset.is_constant(); })) return {};
  std::optional<DepthwiseSizes> sizes = DepthwiseSizes::of(*known);
  if (!sizes) return {};
  sizes->input_offset = placed.offsets[0].constant(), sizes->weight_offset = placed.offsets[1].constant();
  sizes->output_offset = placed.offsets[2].constant();
  return sizes;
}

class DepthwiseProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cpu || node.op != Op::convolution) return false;
    if (!target_instruction_set().runs(Isa::avx2)) return false;
    const std::optional<runtime::ConvolutionDims> dims = convolution_dims(node);
    const auto known = dims ? dims->known() : std::nullopt;
    return known && DepthwiseSizes::of(*known) && known->positions[1] >= 4;
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return is_row_major(shape, strides); }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    const PlacedConvolution placed(candidate);
    const std::optional<DepthwiseSizes> sizes = placed_sizes(placed);
    if (!sizes) return std::nullopt;
    return Offer{placed.cost.operations / Dim(60),  // less than oneDNN's
                 std::make_shared<StoredPayload<Stored, ConvolutionPayload>>(Stored({*sizes, placed.cost}), placed)};
  }
};

}  // namespace

const Provider& depthwise_convolution() {
  static constinit const DepthwiseProvider provider;
  return provider;
}

}  // namespace weft::providers
