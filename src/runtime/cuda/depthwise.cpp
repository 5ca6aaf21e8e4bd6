#include "runtime/cuda/depthwise.hpp"

#include "base/fail.hpp"
#include "runtime/cuda/kernel_arguments.hpp"

namespace weft::runtime::cuda {

namespace {

constexpr std::int64_t pack = depthwise_pack, most_packs = depthwise_most_channels / pack;
constexpr std::int64_t most_kernel = 7, most_step = 2;

std::int64_t pieces(std::int64_t size, std::int64_t piece) { return (size + piece - 1) / piece; }

}  // namespace

bool is_depthwise(const ConvolutionSizes& s) {
  if (s.result != Convolved::output || s.axes != 2 || s.has_bias || s.is_wide || storage_bytes(s.dtype, 1) != 2)
    return false;
  if (s.groups != s.inputs || s.groups != s.outputs || s.groups % pack != 0 || s.is_empty()) return false;
  constexpr std::int64_t most = INT32_MAX;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    if (s.kernel[axis] > most_kernel || s.strides[axis] > most_step || s.dilation[axis] != 1) return false;
    if (s.low[axis] < 0 || s.low[axis] > most_kernel || s.size[axis] > (1 << 20) || s.positions[axis] > (1 << 20))
      return false;
  }
  if (s.batch * s.size[0] * s.size[1] * (s.groups / pack) > most) return false;
  return s.batch * s.positions[0] * s.positions[1] * (s.groups / pack) <= most && lies_with_channels_last(s);
}

DeviceDepthwise::DeviceDepthwise(ConvolutionDims dims, std::span<const Dim> offsets, const Preparation& preparation)
    : device_(use(preparation.device)),
      function_(preparation),
      dims_(std::move(dims)),
      values_(preparation.numbers.add(dims_.dims())),
      offsets_(preparation.numbers.add(offsets)) {}

void DeviceDepthwise::run(const StepCall& call) const {
  const ConvolutionSizes s = dims_.with(call.part(values_));
  if (!is_depthwise(s)) refuse_sizes("a depthwise kernel", s);
  const auto at = [&](std::size_t i) {
    return static_cast<std::byte*>(call.pointers[i]) + storage_bytes(s.dtype, call.part(offsets_)[i]);
  };
  std::int64_t packs = 1;  // of all, in groups that are alike
  for (std::int64_t i = 1; i <= most_packs; ++i)
    if (s.groups / pack % i == 0) packs = i;
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  DepthwiseArguments arguments{.images = at(0),
                               .weights = at(1),
                               .result = at(2),
                               .batch = number(s.batch),
                               .channels = number(s.groups),
                               .height = number(s.size[0]),
                               .width = number(s.size[1]),
                               .rows = number(s.positions[0]),
                               .columns = number(s.positions[1]),
                               .low_down = number(s.low[0]),
                               .low_across = number(s.low[1]),
                               .packs = number(packs),
                               .groups = number(s.groups / pack / packs),
                               .tiles_down = number(pieces(s.positions[0], depthwise_tile[0])),
                               .tiles_across = number(pieces(s.positions[1], depthwise_tile[1]))};
  const std::int64_t tiles = s.batch * arguments.tiles_down * arguments.tiles_across;
  const std::int64_t blocks = pieces(tiles, function_.threads / packs) * arguments.groups;
  function_.launch({.queue = call.queue, .x = blocks, .dependent = begin_launch(device_, call.queue)}, arguments);
}

}  // namespace weft::runtime::cuda
