// Convolutions of a channel with a kernel of its own, on the host. In: images [batch, channels, height, width], kernels
// [channels, kernel...]; f32. Out: the result, row by row. A channel's image is put into a frame of zeros, which stays
// in the thread's cache, and vectors are of positions; a channel is one thread's work, so results do not depend on the
// number of threads.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/convolution.hpp"
#include "runtime/host/isa_namespaces.hpp"
#include "runtime/stored_step.hpp"

namespace weft::runtime {

struct DepthwiseSizes {
  using Int = std::int64_t;
  Int batch = 0, channels = 0;
  Int input_item = 0, output_item = 0;                         // elements from an item of the batch to the next
  Int input_offset = 0, weight_offset = 0, output_offset = 0;  // of the first elements
  // Down, across. `low`: zeros before the first element. Steps across are 1 or 2.
  std::array<Int, 2> size = {}, kernel = {}, positions = {}, step = {}, low = {};

  static auto fields(auto& self) {
    return std::tie(self.batch, self.channels, self.input_item, self.output_item, self.input_offset, self.weight_offset,
                    self.output_offset, self.size, self.kernel, self.positions, self.step, self.low);
  }
  // Nothing of another convolution, of one whose values lie otherwise, and of images that are no thread's to keep.
  static std::optional<DepthwiseSizes> of(const ConvolutionSizes& sizes);
  bool is_sound() const;

  // The frame, in which with steps of 2 the even elements of a row lie before the odd ones.
  Int framed(std::size_t axis) const { return (positions[axis] - 1) * step[axis] + kernel[axis]; }
  Int half() const { return step[1] == 2 ? (framed(1) + 1) / 2 : framed(1); }
  Int pitch() const { return half() * step[1]; }
  static constexpr Int spare = 128, most_frame = 1 << 16;  // elements; so many after its end may be read
  Int frame() const { return (framed(0) * pitch() + spare + 15) / 16 * 16; }
};

class HostDepthwise final : public Runnable {
 public:
  explicit HostDepthwise(const DepthwiseSizes& sizes) : sizes_(sizes) {}
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override;
  void run(const StepCall& call) const override;

 private:
  DepthwiseSizes sizes_;
};

struct DepthwiseFields {
  DepthwiseSizes sizes;
  StepCost cost;
  static auto fields(auto& self) { return std::tie(self.sizes, self.cost); }
};
class StoredDepthwise final : public StepOf<StoredDepthwise, DepthwiseFields> {
 public:
  static constexpr const char* name = "depthwise_convolution";
  using StepOf::StepOf;
  StepCost cost() const override { return what.cost; }
  std::unique_ptr<Runnable> prepare(const Preparation&) const override {
    return std::make_unique<HostDepthwise>(what.sizes);
  }
  void check() const;
};

// ---- what depthwise.isa.cpp supplies, once an ISA ----------------------------------------------------------------

// So many channels, one after the other. The frame's memory may hold anything.
struct DepthwiseKernels {
  void (*run)(const DepthwiseSizes& sizes, std::int64_t channels, const float* input, const float* weight,
              float* output, float* frame);
};
WEFT_FOR_EACH_ISA(extern const DepthwiseKernels depthwise_kernels;)

}  // namespace weft::runtime
