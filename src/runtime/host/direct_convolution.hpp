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

#include "runtime/convolution.hpp"
#include "runtime/host/isa_namespaces.hpp"

namespace weft::runtime {

class DirectConvolution {
 public:
  using Int = std::int64_t;
  // Whether these sizes and strides can be done: of one group and of one or two axes, whose rows lie in one piece. Of
  // another batch too.
  static bool takes(const ConvolutionSizes& sizes);
  explicit DirectConvolution(const ConvolutionSizes& sizes);  // that it takes

  // On as many threads as a parallel loop has now; with less than that for all of them, fewer run.
  std::size_t workspace(bool weights_are_packed) const;
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
  Int input_item, input_channel, input_row, weight_output, output_item, output_channel;  // strides
  // A tile: so many panels of weights, rows and columns of positions, and how many there are of each in the result.
  Int tile_panels, tile_rows, tile_columns, panels, panel_tiles, row_tiles, column_tiles;
  bool in_place;
  Int slice_inputs;  // at most in a slice, of those that are copied
};

// ---- what direct_convolution.isa.cpp supplies, once an ISA ----------------------------------------------------------

// sums[position, output] = or += the products of a slice.
struct ConvolutionSlice {
  std::int64_t depth, vectors;  // of outputs
  const float* weights;         // [depth, vectors]
  const float* image;
  std::int64_t before;       // so much less than its tap says an element is behind `image`
  const std::int32_t* taps;  // [depth]: of an element of the sum, and
  const std::int32_t*
      positions;  // of a position, how far behind `image` it is, in elements: as many as `count`, and some after them
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
