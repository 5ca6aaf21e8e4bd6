// A convolution or one of its gradients over strided memory, shared by the executors. In: shapes. Out: numbers, or
// expressions of which a call makes numbers.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "runtime/room.hpp"
#include "weft/dim.hpp"
#include "weft/dtype.hpp"

namespace weft::runtime {

// Which of the three values is computed from the other two.
enum class Convolved : std::uint8_t { output, input, weight };

// The value that operand 0 or 1 is; 2: the result.
constexpr Convolved value_of_operand(Convolved result, int operand) {
  if (operand == 2) return result;
  if (operand == 0) return result == Convolved::input ? Convolved::output : Convolved::input;
  return result == Convolved::weight ? Convolved::output : Convolved::weight;
}

struct ConvolutionSizes {
  using Int = std::int64_t;
  Convolved result = Convolved::output;
  DType dtype = DType::f32;                // of the operands, the bias too
  bool is_wide = false, has_bias = false;  // the result is f32, of 16-bit operands; + bias [outputs], rounded once
  bool is_tf32 = false;                    // of f32 on a device: as in a Contraction
  int axes = 1;                            // after the channels
  Int batch = 0;                           // -1: known at a call
  Int inputs = 1, outputs = 1, groups = 1;
  std::array<Int, 3> size = {}, kernel = {}, positions = {}, strides = {}, low = {}, high = {}, dilation = {};
  // In elements, of each axis of [N, inputs, size...], [outputs, inputs/groups, kernel...], [N, outputs, positions...].
  std::array<Int, 5> input_strides = {}, weight_strides = {}, output_strides = {};

  static auto fields(auto& self) {
    return std::tie(self.result, self.dtype, self.is_wide, self.has_bias, self.is_tf32, self.axes, self.batch,
                    self.inputs, self.outputs, self.groups, self.size, self.kernel, self.positions, self.strides,
                    self.low, self.high, self.dilation, self.input_strides, self.weight_strides, self.output_strides);
  }
  bool is_empty() const;
  // Whether a graph's inference could give these: what a file says may be anything. Of a batch of -1, too.
  bool is_sound() const;
  DType result_dtype() const { return is_wide ? DType::f32 : dtype; }
  std::array<Int, 5>& strides_of(Convolved value) {
    return value == Convolved::input ? input_strides : value == Convolved::weight ? weight_strides : output_strides;
  }
  const std::array<Int, 5>& strides_of(Convolved value) const {
    return const_cast<ConvolutionSizes&>(*this).strides_of(value);
  }
  // Of each axis of a value; 1 beyond its last.
  std::array<Int, 5> shape_of(Convolved value) const;
  bool operator<(const ConvolutionSizes& other) const;  // in some order
};

// The same where the batch, the sizes after the channels and the strides of memory may be symbols.
class ConvolutionDims {
 public:
  using Int = std::int64_t;
  using List = std::span<const Int>;
  // Of the operands' and the result's shapes, over contiguous memory. Nothing where channels or a kernel's size are
  // symbols.
  static std::optional<ConvolutionDims> of(Convolved result, DType dtype, const Shape& a, const Shape& b,
                                           const Shape& c, List strides, List low, List high, List dilation,
                                           Int groups);
  // What ConvolutionSizes say of them.
  void set_wide() { fixed_.is_wide = true; }
  void set_tf32() { fixed_.is_tf32 = true; }
  void set_bias() { fixed_.has_bias = true; }
  // The value lies so in memory.
  void place(Convolved value, const Shape& shape, std::span<const Dim> strides);

  DType dtype() const { return fixed_.dtype; }
  DType result_dtype() const { return fixed_.result_dtype(); }
  bool has_bias() const { return fixed_.has_bias; }
  bool is_tf32() const { return fixed_.is_tf32; }
  Dim batch() const { return dims_[0]; }
  // Products of two numbers, of one item of the batch.
  Dim multiplications() const;
  // All numbers, -1 for a batch that is a symbol; nothing where another one is.
  std::optional<ConvolutionSizes> known() const;
  // What `with` is given the values of.
  std::span<const Dim> dims() const { return dims_; }
  ConvolutionSizes with(std::span<const Int> values) const;
  // As ConvolutionSizes::is_sound, whatever the values are.
  bool is_sound() const;
  static auto fields(auto& self) { return std::tie(self.fixed_, self.dims_); }

 private:
  std::size_t strides_at(Convolved value) const;

  ConvolutionSizes fixed_;
  std::vector<Dim> dims_;  // the batch; of each axis its size and its positions; strides of output, input and weight
};

// Whether a convolution of these sizes stays within its buffers: both operands, the result. `offsets`: of the three, in
// elements.
bool convolution_fits(const ConvolutionSizes& sizes, std::span<const std::int64_t> offsets,
                      std::span<const Room> rooms);

// Of images: all three values lie with the channels last.
void place_channels_last(ConvolutionSizes& sizes);
// Whether all three lie so, or else all lie row by row. Axes of one element say nothing.
bool lies_with_channels_last(const ConvolutionSizes& sizes);
bool lies_row_by_row(const ConvolutionSizes& sizes);

// Throws Error: a library that took such sizes when the function was compiled does not take those of this call.
[[noreturn]] void refuse_sizes(const char* library, const ConvolutionSizes& sizes);

// Whether memory of these strides can be read where it lies: known ones, and no element twice.
bool convolution_reads(const Shape& shape, std::span<const Dim> strides);

}  // namespace weft::runtime
