// Convolutions of f32 images on the CPU whose channels have a kernel each, by a kernel of our own.
#include "providers/convolution.hpp"
#include "providers/stored_payload.hpp"
#include "runtime/host/depthwise.hpp"
#include "runtime/host/isa.hpp"

namespace weft::providers {

namespace {

using runtime::DepthwiseSizes;

class DepthwisePayload final : public ConvolutionPayload {
 public:
  explicit DepthwisePayload(const Candidate& candidate) : ConvolutionPayload(candidate) {
    const auto known = dims_.known();
    for (const Dim offset : offsets_)
      if (!offset.is_constant()) return;
    if (known) sizes_ = DepthwiseSizes::of(*known);
    if (!sizes_) return;
    sizes_->input_offset = offsets_[0].constant(), sizes_->weight_offset = offsets_[1].constant();
    sizes_->output_offset = offsets_[2].constant();
    stored_ = runtime::StoredDepthwise({*sizes_, {cost().bytes, cost().operations}});
  }
  bool is_made() const { return sizes_.has_value(); }
  std::string stored_as() const override { return stored_.stored_as(); }
  void write(runtime::FieldWriter& to, const runtime::EntryPoint& entry) const override { stored_.write(to, entry); }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return stored_.prepare(preparation);
  }

 private:
  std::optional<DepthwiseSizes> sizes_;
  runtime::StoredDepthwise stored_;
};

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
    auto payload = std::make_shared<DepthwisePayload>(candidate);
    if (!payload->is_made()) return std::nullopt;
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(60), std::move(payload)};  // less than oneDNN's
  }
};

}  // namespace

const Provider& depthwise_convolution() {
  static constinit const DepthwiseProvider provider;
  return provider;
}

}  // namespace weft::providers
