// Convolutions of f32 on the CPU by kernels of our own.
#include "runtime/host/direct_convolution.hpp"

#include "providers/convolution.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/host/isa.hpp"

namespace weft::providers {

namespace {

using runtime::ConvolutionSizes;

using Stored = runtime::StoredDirectConvolution;

class DirectProvider final : public Provider {
 public:
  bool takes(const Node& node, Device device) const override {
    if (device.type != Device::Type::cpu || node.op != Op::convolution) return false;
    if (!target_instruction_set().runs(Isa::avx2)) return false;
    const std::optional<runtime::ConvolutionDims> dims = convolution_dims(node);
    if (!dims) return false;
    const ConvolutionSizes sizes = expected(*dims);
    return runtime::DirectConvolution::takes(sizes) &&
           (is_product(sizes) ? beats_product(sizes) : fills_vectors(sizes));
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return lies_in_items(shape, strides); }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    for (const PlacedValue* value : {&candidate.operands[0], &candidate.operands[1], &candidate.result()})
      if (!lies_in_items(value->type.shape, value->strides)) return std::nullopt;
    const PlacedConvolution placed(candidate);
    // oneDNN's offer says 50 GFLOP/s.
    return Offer{placed.cost.operations / Dim(beats_onednn(expected(*convolution_dims(candidate.node))) ? 60 : 45),
                 std::make_shared<StoredPayload<Stored, ConvolutionPayload>>(
                     Stored({placed.dims, placed.offsets, placed.cost}), placed)};
  }

 private:
  // Row-major, whatever is from one item of the batch to the next, and one output of the weights to the next.
  static bool lies_in_items(const Shape& shape, std::span<const Dim> strides) {
    Shape item = shape;
    item[0] = Dim(1);
    return is_row_major(item, strides);
  }
  static std::int64_t positions_of(const ConvolutionSizes& sizes) {
    std::int64_t all = 1;
    for (std::size_t axis = 0; axis < static_cast<std::size_t>(sizes.axes); ++axis) all *= sizes.positions[axis];
    return all;
  }
  static bool is_wide() { return target_instruction_set().runs(Isa::avx512); }

  // Measured on two threads of a Zen 4 (decisions/0027): products of few positions fill no whole panels, and with
  // AVX-512 deep ones pack images for longer than they are read here. Few outputs leave vectors empty.
  static bool beats_product(const ConvolutionSizes& sizes) {
    return sizes.inputs >= 256 && sizes.outputs >= 16 && positions_of(sizes) <= (is_wide() ? 4096 : 64);
  }
  static bool fills_vectors(const ConvolutionSizes& sizes) { return sizes.outputs >= 8; }
  // oneDNN's tiles are images and parts of 32 outputs or more, so of one image it often has one. It leaves out what it
  // would multiply by a border's zeros, which is much where images are small.
  static bool beats_onednn(const ConvolutionSizes& sizes) {
    const bool one_tile = sizes.batch == 1 && sizes.outputs % 64 != 0;
    return one_tile || (is_wide() && positions_of(sizes) > 200);
  }
};

}  // namespace

const Provider& direct_convolution() {
  static constinit const DirectProvider provider;
  return provider;
}

}  // namespace weft::providers
