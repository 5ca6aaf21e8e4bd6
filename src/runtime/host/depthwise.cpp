#include "runtime/host/depthwise.hpp"

#include "base/fail.hpp"
#include "base/member_count.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/parallel.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

namespace {

using Int = std::int64_t;

constexpr Int chunk_work = 1 << 16;  // multiplications: about 10 us, with what is moved

const DepthwiseKernels& host_kernels() {
  static const DepthwiseKernels* const table[] = {&baseline::depthwise_kernels, &avx2::depthwise_kernels,
                                                  &avx512::depthwise_kernels};
  return *table[static_cast<int>(host_isa())];
}

struct Task {
  const DepthwiseSizes& sizes;
  const float *input, *weight;
  float *output, *frames;

  void run(Chunks& chunks) const {
    float* const frame = frames + chunks.place() * sizes.frame();
    const Int from = sizes.size[0] * sizes.size[1], taps = sizes.kernel[0] * sizes.kernel[1],
              to = sizes.positions[0] * sizes.positions[1];
    for (Int begin, end; chunks.next(begin, end);)
      while (begin < end) {  // an item of the batch at a time
        const Int item = begin / sizes.channels, channel = begin % sizes.channels,
                  count = std::min(end - begin, sizes.channels - channel);
        host_kernels().run(sizes, count, input + item * sizes.input_item + channel * from, weight + channel * taps,
                           output + item * sizes.output_item + channel * to, frame);
        begin += count;
      }
  }
};

}  // namespace

std::optional<DepthwiseSizes> DepthwiseSizes::of(const ConvolutionSizes& it) {
  if (it.result != Convolved::output || it.dtype != DType::f32 || it.is_wide || it.has_bias || it.axes != 2 ||
      it.batch < 1 || it.groups != it.inputs || it.inputs != it.outputs)
    return std::nullopt;
  DepthwiseSizes sizes;
  sizes.batch = it.batch, sizes.channels = it.inputs;
  for (const std::size_t axis : {0, 1}) {
    if (it.dilation[axis] != 1 || it.high[axis] < 0) return std::nullopt;
    sizes.size[axis] = it.size[axis], sizes.kernel[axis] = it.kernel[axis], sizes.positions[axis] = it.positions[axis];
    sizes.step[axis] = it.strides[axis], sizes.low[axis] = it.low[axis];
  }
  ConvolutionSizes item = it;  // whatever is from one item of the batch to the next
  item.batch = 1;
  if (!lies_row_by_row(item)) return std::nullopt;
  sizes.input_item = it.batch > 1 ? it.input_strides[0] : 0;
  sizes.output_item = it.batch > 1 ? it.output_strides[0] : 0;
  return sizes.is_sound() ? std::optional(sizes) : std::nullopt;
}

bool DepthwiseSizes::is_sound() const {
  constexpr Int most = Int{1} << 24;
  const auto within = [](Int number, Int least, Int most) { return number >= least && number < most; };
  if (!within(batch, 1, most) || !within(channels, 1, most) || step[1] > 2) return false;
  for (const std::size_t axis : {0, 1})
    if (!within(size[axis], 1, most_frame) || !within(kernel[axis], 1, 64) || !within(positions[axis], 1, most_frame) ||
        !within(step[axis], 1, 64) || !within(low[axis], 0, kernel[axis]) || framed(axis) < low[axis] + 1)
      return false;
  return framed(0) * pitch() <= most_frame;
}

bool HostDepthwise::fits(std::span<const std::int64_t>, std::span<const Room> rooms) const {
  const DepthwiseSizes& it = sizes_;
  const auto image = [&](Int offset, Int item, const std::array<Int, 2>& size) {
    return Reach(offset).along(it.batch, item).along(it.channels * size[0] * size[1], 1);
  };
  return rooms.size() == 3 && image(it.input_offset, it.input_item, it.size).is_in(rooms[0], DType::f32) &&
         Reach(it.weight_offset).along(it.channels * it.kernel[0] * it.kernel[1], 1).is_in(rooms[1], DType::f32) &&
         image(it.output_offset, it.output_item, it.positions).may_write(rooms[2], DType::f32);
}

std::size_t HostDepthwise::workspace(std::span<const std::int64_t>) const {
  const Int threads = std::min<Int>(sizes_.batch * sizes_.channels, num_threads());
  return static_cast<std::size_t>(threads * sizes_.frame()) * sizeof(float);
}

void HostDepthwise::run(const StepCall& call) const {
  const auto place = [&](std::size_t buffer, Int offset) {
    return static_cast<float*>(call.pointers[buffer]) + offset;
  };
  const Task task{sizes_, place(0, sizes_.input_offset), place(1, sizes_.weight_offset), place(2, sizes_.output_offset),
                  reinterpret_cast<float*>(call.workspace.data())};
  const auto most_threads = static_cast<Int>(call.workspace.size() / sizeof(float)) / sizes_.frame();
  WEFT_CHECK(most_threads > 0, "a workspace of ", call.workspace.size(), " bytes");
  const Int work = sizes_.positions[0] * sizes_.positions[1] * sizes_.kernel[0] * sizes_.kernel[1];
  parallel_for(
      0, sizes_.batch * sizes_.channels, std::max<Int>(1, chunk_work / work), most_threads,
      [](void* context, Chunks& chunks) { static_cast<const Task*>(context)->run(chunks); }, const_cast<Task*>(&task));
}

static_assert(lists_all<DepthwiseSizes> && lists_all<DepthwiseFields>, "a member is not in fields()");

void StoredDepthwise::check() const {
  if (!what.sizes.is_sound()) throw Malformed();
}

const NamedStep steps::depthwise_convolution{StoredDepthwise::name, StoredDepthwise::read};

}  // namespace weft::runtime
