// Convolutions and their gradients on a device by cuDNN, where it is found, and with a bias those of 16-bit floats. It
// gives no f32 of 16-bit operands. All values lie row by row, others are put in order first; or all lie with the
// channels last. Then the kernel that reads one may be one launch with it, where the library adds and activates so.
#include <algorithm>

#include "base/options.hpp"
#include "providers/assumptions.hpp"
#include "providers/convolution.hpp"
#include "providers/known_epilogue.hpp"
#include "providers/sources.hpp"
#include "runtime/cuda/followed_convolution.hpp"

namespace weft::providers {

namespace {

using runtime::cuda::LibraryConvolution;

// Whether the library takes it, which this thread's compilation may assume.
bool is_taken(Device device, const runtime::ConvolutionSizes& sizes) {
  if (Assumptions* const assumptions = Assumptions::current()) {
    if (const std::optional<bool> known = LibraryConvolution::is_taken(device, sizes)) return *known;
    assumptions->add([device, sizes] { return LibraryConvolution::find(device, sizes) != nullptr; });
    return true;
  }
  return LibraryConvolution::find(device, sizes) != nullptr;
}

class DnnPayload final : public ConvolutionPayload {
 public:
  explicit DnnPayload(const Candidate& candidate)
      : ConvolutionPayload(PlacedConvolution(candidate)),
        device_(candidate.device),
        is_known_(placed_.dims.known() && placed_.dims.batch().is_constant()),
        measures_(candidate.choices.measures && is_known_),
        expected_(expected(placed_.dims)) {}
  bool is_offered() const {
    return measures_ ? LibraryConvolution::find(device_, expected_, true) != nullptr : is_taken(device_, expected_);
  }
  bool may_fail() const override { return !is_known_; }  // its workspace is the plan's
  const PlacedConvolution& placed() const { return placed_; }
  bool is_known() const { return is_known_; }
  bool measures() const { return measures_; }
  const runtime::ConvolutionSizes& sizes() const { return expected_; }
  std::string by() const override { return placed_.dims.is_tf32() ? "cuDNN, tf32" : "cuDNN"; }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    auto found = is_known_ ? LibraryConvolution::find(device_, expected_, measures_) : nullptr;
    return std::make_unique<runtime::cuda::DeviceConvolution>(device_, std::move(found), placed_.dims, placed_.offsets,
                                                              preparation.numbers);
  }

 private:
  Device device_;
  bool is_known_, measures_;
  runtime::ConvolutionSizes expected_;
};

class FollowedPayload final : public Payload {
 public:
  FollowedPayload(Device device, runtime::cuda::FollowedConvolutionCall call, std::string text, loop::Cost cost,
                  loop::Kernel kernel)
      : device_(device), call_(std::move(call)), text_(std::move(text)), cost_(cost), kernel_(std::move(kernel)) {}
  std::string details() const override { return text_ + ", and " + loop::to_text(kernel_); }
  std::string by() const override { return "cuDNN"; }
  loop::Cost cost() const override { return cost_; }
  std::vector<bool> writes(std::size_t) const override {
    std::vector<bool> all(call_.dims.has_bias() ? 3 : 2, false);
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i)
      if (i != call_.place) all.push_back(kernel_.buffers[i].written);
    return all;
  }
  runtime::EntryPoint emit(providers::Sources& sources) const override { return sources.add({&kernel_, 1}); }
  bool makes_ahead() const override { return true; }
  void make_ahead() const override { LibraryConvolution::find_ahead(device_, *call_.dims.known(), call_.epilogue); }
  std::unique_ptr<runtime::Runnable> prepare(const runtime::Preparation& preparation) const override {
    return std::make_unique<runtime::cuda::FollowedConvolution>(call_, preparation);
  }

 private:
  Device device_;
  runtime::cuda::FollowedConvolutionCall call_;
  std::string text_;
  loop::Cost cost_;
  loop::Kernel kernel_;
};

// What the library is asked about. Nothing where it has no form of it.
std::optional<runtime::ConvolutionSizes> asked(const Node& node, Device device) {
  if (device.type != Device::Type::cuda || !options().cudnn) return {};
  if (info(node.op).kind != OpKind::convolution && !is_convolution_with_bias(node)) return {};
  const DType dtype = node.type.dtype;
  if (dtype != DType::f32 && dtype != DType::f16 && dtype != DType::bf16) return {};
  const std::optional<runtime::ConvolutionDims> dims = convolution_dims(node);
  if (!dims || dims->result_dtype() != dims->dtype()) return {};
  return expected(*dims);
}

class DnnProvider final : public Provider {
 public:
  bool is_for_packages() const override { return false; }
  bool takes(const Node& node, Device device) const override {
    const std::optional<runtime::ConvolutionSizes> sizes = asked(node, device);
    return sizes && is_taken(device, *sizes);
  }
  void add_questions(const Node& node, Device device, Providers::Questions& to) const override {
    auto sizes = asked(node, device);
    if (!sizes) return;
    LibraryConvolution::promise(device, *sizes);
    to.emplace_back([device, sizes = *std::move(sizes)] { LibraryConvolution::find_ahead(device, sizes); });
  }
  // Its kernels for tensor cores read channels in packs, or the few of a picture. Not of groups, which are slower so,
  // nor gradients: they are faster so, but what kernels compute between them is not (docs/performance_gpu_subjects.md).
  bool gains_with_channels_last(const Node& node, Device device) const override {
    constexpr std::int64_t pack = 8, few = 4;
    std::optional<runtime::ConvolutionDims> dims = convolution_dims(node);
    if (!dims || node.type.shape.rank() != 4 || computed_in(node.type.dtype) == node.type.dtype) return false;
    runtime::ConvolutionSizes sizes = expected(*dims);
    if (sizes.result != runtime::Convolved::output || sizes.groups != 1) return false;
    if ((sizes.inputs % pack != 0 && sizes.inputs > few) || sizes.outputs % pack != 0) return false;
    place_channels_last(sizes);
    return LibraryConvolution::find(device, sizes) != nullptr;
  }
  bool reads(const Shape& shape, std::span<const Dim> strides) const override { return is_row_major(shape, strides); }
  std::optional<Followed> followed(const Step& step, const Step& follower, bool keeps, Device device) const override {
    const auto* const alone = dynamic_cast<const DnnPayload*>(step.payload.get());
    const loop::Kernel* const kernel = follower.payload->kernel();
    if (!alone || !kernel || keeps || !alone->is_known()) return {};
    if (const int asked = options().convolution_epilogues; asked == 0 || (asked < 0 && !alone->measures())) return {};
    const runtime::ConvolutionSizes& sizes = alone->sizes();
    if (follower.buffers.size() != kernel->buffers.size() || !lies_with_channels_last(sizes)) return {};
    const PlacedConvolution& placed = alone->placed();
    if (sizes.result != runtime::Convolved::output || !placed.offsets[2].same(Dim(0))) return {};
    const auto place = std::ranges::find(follower.buffers, step.buffers.back()) - follower.buffers.begin();
    std::int64_t elements = sizes.batch * sizes.outputs;
    for (int axis = 0; axis < sizes.axes; ++axis) elements *= sizes.positions[static_cast<std::size_t>(axis)];
    const auto known = known_image_epilogue(*kernel, static_cast<int>(place), elements, sizes.outputs);
    if (!known || !LibraryConvolution::is_named(device, sizes, known->epilogue)) return {};
    runtime::cuda::FollowedConvolutionCall call{.dims = placed.dims,
                                                .offsets = placed.offsets,
                                                .measures = alone->measures(),
                                                .buffers = kernel->buffers.size(),
                                                .place = static_cast<std::size_t>(place),
                                                .sizes = kernel->parameters,
                                                .epilogue = known->epilogue,
                                                .added = {known->added.begin(), known->added.end()},
                                                .result = static_cast<std::size_t>(known->result)};
    const loop::Cost cost = alone->cost(), more = follower.payload->cost();
    const Dim between = Dim(2 * storage_bytes(sizes.dtype, elements));  // written and read by two steps
    const loop::Cost of_both{cost.bytes + more.bytes - between, cost.operations + more.operations};
    std::vector<int> buffers(step.buffers.begin(), step.buffers.end() - 1);
    for (const int each : follower.buffers)
      if (each != step.buffers.back()) buffers.push_back(each);
    return Followed{std::make_shared<FollowedPayload>(device, std::move(call), placed.text, of_both, *kernel),
                    std::move(buffers)};
  }
  std::optional<Offer> offer(const Candidate& candidate) const override {
    auto payload = std::make_shared<DnnPayload>(candidate);
    if (!payload->is_offered()) return std::nullopt;
    const Dim operations = payload->cost().operations;
    return Offer{operations / Dim(30000), std::move(payload)};
  }
};

}  // namespace

const Provider& cudnn_convolution() {
  static constinit const DnnProvider provider;
  return provider;
}

}  // namespace weft::providers
