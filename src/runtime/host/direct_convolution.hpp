// Convolutions of f32 on the host by kernels of our own: images lie row by row and stay so, and no matrix of patches is
// made. In: sizes, images, weights. Out: result[image, output, position], the sums over all inputs and elements of the
// kernel in this order, a slice of them at a time. A block of the result is some outputs, which are vectors of packed
// weights, at some positions, whose elements of the image are read one by one where they lie. The result is cut into
// tiles by the sizes alone and a tile is one thread's work from beginning to end, so results do not depend on the
// number of threads.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "runtime/constants.hpp"
#include "runtime/convolution.hpp"
#include "runtime/host/isa_namespaces.hpp"
#include "runtime/stored_step.hpp"

namespace weft::runtime {

class DirectConvolution {
 public:
  using Int = std::int64_t;
  // Whether it can be done, whatever the batch and the sizes of images are: of one group, of one or two axes.
  static bool takes(const ConvolutionSizes& sizes);
  // Whether the three values lie so that they are read and written: rows in one piece, weights one after the other.
  static bool lies_well(const ConvolutionSizes& sizes);
  explicit DirectConvolution(const ConvolutionSizes& sizes);  // of which both are true

  // On as many threads as a parallel loop has now; with less than that for all of them, fewer run.
  std::size_t workspace() const;
  // `weights`: as they lie. `packed`: what pack() made of them; null: nothing.
  void run(const float* input, const float* weights, float* output, std::span<std::byte> workspace,
           const std::byte* packed) const;
  // In the order of this process's ISA. `to` is 64-byte aligned.
  std::size_t packed_bytes() const;
  void pack(const float* weights, std::byte* to) const;

 private:
  struct Run;
  struct Axis {
    Int size, kernel, positions, stride, low, dilation;
    Int reach(Int count) const { return (count - 1) * stride + (kernel - 1) * dilation + 1; }  // of some positions
  };
  // Outputs are cut into panels of about equal numbers of vectors.
  Int panel_begin(Int panel) const;
  Int panel_width(Int panel) const { return panel_begin(panel + 1) - panel_begin(panel); }
  std::size_t thread_bytes() const;
  void cut();

  Axis y, x;
  Int batch, inputs, outputs, depth;
  Int input_item, input_channel, input_row, weight_output, output_item, output_channel, output_row;  // strides
  // A tile: so many panels of weights, rows and columns of positions, and how many there are of each in the result.
  Int tile_panels, tile_rows, tile_columns, panels, panel_tiles, row_tiles, column_tiles;
  bool in_place;
  Int slice_inputs;  // at most in a slice, of those that are copied
};

// Buffers: the image, the weights, the result.
class HostConvolution final : public PackingStep {
 public:
  // `offsets`: of the three, in elements.
  HostConvolution(ConvolutionDims dims, std::span<const Dim> offsets, NumberTable& numbers);
  bool fits(std::span<const std::int64_t> numbers, std::span<const Room> rooms) const override;
  bool has_workspace() const override { return true; }
  std::size_t workspace(std::span<const std::int64_t> numbers) const override { return of(numbers).workspace(); }
  void run(const StepCall& call) const override { run_packed(call, nullptr); }

  std::size_t packed_bytes(std::size_t buffer) const override;
  Digest packed_as(std::size_t buffer) const override;
  void pack(std::size_t buffer, const StepCall& call, std::byte* to) const override;
  void run_packed(const StepCall& call, const std::byte* const* packed) const override;

 private:
  DirectConvolution of(std::span<const std::int64_t> numbers) const { return DirectConvolution(sizes(numbers)); }
  ConvolutionSizes sizes(std::span<const std::int64_t> numbers) const {
    return dims_.with(numbers.subspan(values_.begin, values_.count));
  }
  float* place(const StepCall& call, std::size_t value) const {
    return static_cast<float*>(call.pointers[value]) + call.numbers[offsets_.begin + value];
  }

  ConvolutionDims dims_;
  NumberTable::Range values_, offsets_;
  // Of weights that lie in a place that is known: of some sizes, on which nothing of their order depends.
  std::optional<ConvolutionSizes> weights_;
  std::int64_t weight_offset_ = 0;
};

struct DirectConvolutionFields {
  ConvolutionDims dims;      // as the values lie
  std::vector<Dim> offsets;  // of the image, the weights, the result
  StepCost cost;
  static auto fields(auto& self) { return std::tie(self.dims, self.offsets, self.cost); }
};
class StoredDirectConvolution final : public StepOf<StoredDirectConvolution, DirectConvolutionFields> {
 public:
  static constexpr const char* name = "direct_convolution";
  using StepOf::StepOf;
  StepCost cost() const override { return what.cost; }
  std::unique_ptr<Runnable> prepare(const Preparation& preparation) const override {
    return std::make_unique<HostConvolution>(what.dims, what.offsets, preparation.numbers);
  }
  void check() const;
};

// ---- what direct_convolution.isa.cpp supplies, once an ISA ----------------------------------------------------------

// sums[j, output] = or += the sum over k of weights[k, output] * image[taps[k] - before + positions[j]].
struct ConvolutionSlice {
  std::int64_t depth, vectors;  // how many k there are, and vectors of outputs
  const float* weights;         // [depth, vectors]
  const float* image;
  std::int64_t before;
  const std::int32_t* taps;       // [depth]
  const std::int32_t* positions;  // [count], and some more that can be read
  std::int64_t count;
  float* sums;
  bool add;
};
struct ConvolutionKernels {
  void (*multiply)(const ConvolutionSlice&);
  void (*copy_rows)(const float* from, std::int64_t from_step, std::int64_t rows, std::int64_t columns, float* to,
                    std::int64_t to_step);
  // to[output * step + position] = sums[position * width + output] of so many.
  void (*write)(const float* sums, std::int64_t width, std::int64_t outputs, std::int64_t positions, float* to,
                std::int64_t step);
  std::int64_t lanes;               // of a vector
  std::int64_t vectors, positions;  // of a block at most
};
WEFT_FOR_EACH_ISA(extern const ConvolutionKernels convolution_kernels;)

}  // namespace weft::runtime
