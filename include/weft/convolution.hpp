// Convolutions and pooling over 1 to 3 axes: functions. Their layers are in weft/nn/convolution.hpp.
#pragma once
#include <concepts>

#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft {

// A number for each of `count` axes, or one for all of them: {3, 5}, 3.
template <int count>
struct PerAxis {
  std::int64_t sizes[static_cast<std::size_t>(count)];  // the outermost axis first
  // The same number for all axes.
  template <std::integral T>
  constexpr PerAxis(T all) {
    for (std::int64_t& each : sizes) each = all;
  }
  // A number for each axis.
  template <std::integral... T>
  requires(sizeof...(T) == count && count > 1) constexpr PerAxis(T... each)
      : sizes{static_cast<std::int64_t>(each)...} {}
  // That of an axis in [0, count), which is not checked.
  constexpr std::int64_t operator[](int axis) const { return sizes[axis]; }
  WEFT_MEMBERS(sizes)
};

namespace detail {
// Of a layer that is made of a list alone, as MaxPool2d({2, 3}): without a constructor from a list, such a list could
// as well be a layer that is copied.
template <int count, class T, std::size_t length>
constexpr PerAxis<count> per_axis(const T (&each)[length]) {
  static_assert(length == count, "weft: a layer has one size for all axes, or one for each");
  PerAxis<count> result = 0;
  for (int axis = 0; axis < count; ++axis) result.sizes[axis] = static_cast<std::int64_t>(each[axis]);
  return result;
}
}  // namespace detail

// As many zeros as let the result of a stride of 1 keep the size, one more at the end where the count is odd. Another
// stride is an Error.
struct SamePadding {};
inline constexpr SamePadding same_padding;  // as a padding of convolutions
template <int count>
struct Padding {         // zeros before and after each axis, or same_padding
  PerAxis<count> zeros;  // at each end of each axis; 0 where `same` is
  bool same = false;     // same_padding
  // One number for all axes, or one for each.
  template <std::integral... T>
  requires(sizeof...(T) == 1 || sizeof...(T) == count) constexpr Padding(T... each) : zeros(each...) {}
  constexpr Padding(PerAxis<count> each) : zeros(each) {}   // zeros at each end of each axis
  constexpr Padding(SamePadding) : zeros(0), same(true) {}  // what keeps the size
  WEFT_MEMBERS(zeros, same)
};

template <int count>
struct ConvOptions {            // of conv1d, conv2d, conv3d, as in PyTorch
  PerAxis<count> stride = 1;    // how far the kernel moves between two elements of the result; positive
  Padding<count> padding = 0;   // zeros at both ends of each axis, or same_padding
  PerAxis<count> dilation = 1;  // the distance between neighbouring elements of the kernel; positive
  std::int64_t groups = 1;      // output channel o reads the input channels of group o / (O / groups)
};
template <int count>
struct ConvTransposeOptions {         // of conv_transpose1d, 2d, 3d, as in PyTorch
  PerAxis<count> stride = 1;          // how far apart neighbours of x lie in the result; positive
  PerAxis<count> padding = 0;         // cut off at both ends of each axis of the result
  PerAxis<count> output_padding = 0;  // added to the result's size, at its end: less than the stride or the dilation
  std::int64_t groups = 1;            // input channels of group g make the output channels of group g
  PerAxis<count> dilation = 1;        // the distance between neighbouring elements of the kernel; positive
};

namespace detail {
// The result of what is refused: numbers where options are wanted.
template <class... T>
using RefusedNumbers = std::enable_if_t<(std::is_arithmetic_v<T> || ...), Tensor>;
// What the three counts of axes share; numbers are `count` each.
struct Convolve {
  int count;
  const std::int64_t *stride, *padding, *dilation, *output_padding;
  std::int64_t groups;
  bool same;
};
// Throws Error where a number is none that a convolution can have.
void check_convolve(const char* name, const Convolve& how, Loc loc);
Tensor convolve(const char* name, const At& x, const At& weight, const At* bias, const Convolve& how);
Tensor convolve_transposed(const char* name, const At& x, const At& weight, const At* bias, const Convolve& how);
template <int count>
Convolve convolve_of(const ConvOptions<count>& o) {
  return {count, o.stride.sizes, o.padding.zeros.sizes, o.dilation.sizes, nullptr, o.groups, o.padding.same};
}
template <int count>
Convolve convolve_of(const ConvTransposeOptions<count>& o) {
  return {count, o.stride.sizes, o.padding.sizes, o.dilation.sizes, o.output_padding.sizes, o.groups, false};
}
}  // namespace detail

// x [N,C,sizes...], or [C,sizes...], with weight [O,C/groups,kernel...] to [N,O,sizes'...]: sums of products as in
// PyTorch, without flipping the weight; bias [O] is added before it is rounded. A size S becomes
//   (S + 2 padding - dilation (k - 1) - 1) / stride + 1.
// Dtypes promote; they are floating. The weight's sizes and the channels become constants of a compiled function; N and
// the sizes may vary.
// conv_transpose: the derivative of such a convolution by its input, as an operation: x [N,C,sizes...] with weight
// [C,O/groups,kernel...] to [N,O,sizes'...]. S becomes
//   (S - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.
#define WEFT_CONVOLUTION(count)                                                                                        \
  using Conv##count##dOptions = ConvOptions<count>;                                                                    \
  using ConvTranspose##count##dOptions = ConvTransposeOptions<count>;                                                  \
  template <class... T>                                                                                                \
  detail::RefusedNumbers<T...> conv##count##d(At, At, T...) = delete; /* weft: name them: (x, w, {.stride = 2}) */     \
  template <class... T>                                                                                                \
  detail::RefusedNumbers<T...> conv_transpose##count##d(At, At, T...) = delete; /* weft: (x, w, {.stride = 2}) */      \
  inline Tensor conv##count##d(At x, At weight, Conv##count##dOptions options = {}) {                                  \
    return detail::convolve("conv" #count "d", x, weight, nullptr, detail::convolve_of(options));                      \
  }                                                                                                                    \
  inline Tensor conv##count##d(At x, At weight, At bias, Conv##count##dOptions options = {}) {                         \
    return detail::convolve("conv" #count "d", x, weight, &bias, detail::convolve_of(options));                        \
  }                                                                                                                    \
  inline Tensor conv_transpose##count##d(At x, At weight, ConvTranspose##count##dOptions options = {}) {               \
    return detail::convolve_transposed("conv_transpose" #count "d", x, weight, nullptr, detail::convolve_of(options)); \
  }                                                                                                                    \
  inline Tensor conv_transpose##count##d(At x, At weight, At bias, ConvTranspose##count##dOptions options = {}) {      \
    return detail::convolve_transposed("conv_transpose" #count "d", x, weight, &bias, detail::convolve_of(options));   \
  }
WEFT_CONVOLUTION(1)
WEFT_CONVOLUTION(2)
WEFT_CONVOLUTION(3)
#undef WEFT_CONVOLUTION

// ---- pooling: x [N,C,sizes...] or [C,sizes...], of which only N may be 0, by windows --------------------------------

template <int count>
struct MaxPoolOptions {         // of max_pool
  PerAxis<count> stride = 0;    // 0: the kernel's size
  PerAxis<count> padding = 0;   // at both ends of each axis, at most half of the kernel; never the greatest
  PerAxis<count> dilation = 1;  // the distance between neighbours in a window; positive
  bool ceil_mode = false;       // a last window that begins inside counts, though it ends outside
};
template <int count>
struct AvgPoolOptions {               // of avg_pool
  PerAxis<count> stride = 0;          // 0: the kernel's size
  PerAxis<count> padding = 0;         // zeros at both ends of each axis, at most half of the kernel
  bool ceil_mode = false;             // a last window that begins inside counts, though it ends outside
  bool count_include_pad = true;      // padding counts as elements
  std::int64_t divisor_override = 0;  // what sums are divided by; 0: the count of elements
};

template <int count>
struct MaxUnpoolOptions {      // of max_unpool
  PerAxis<count> stride = 0;   // 0: the kernel's size
  PerAxis<count> padding = 0;  // as the pooling had it
  Sizes output_size = {};      // sizes of the result; by default (S - 1) stride - 2 padding + kernel
};
template <int count>
struct FractionalMaxPoolOptions {  // of fractional_max_pool: one of the first two
  PerAxis<count> output_size = 0;  // sizes of the result
  // Or what the sizes are multiplied with, between 0 and 1, for each axis or all.
  std::vector<double> output_ratio = {};
  Tensor random_samples = {};  // [N,C,axes] in [0, 1), or [1,C,axes] without a batch; undefined: drawn
};

namespace detail {
struct Pool {
  int count;
  const std::int64_t *kernel, *stride, *padding, *dilation;
  bool ceil_mode, count_include_pad;
  std::int64_t divisor;
};
template <int count>
Pool pool_of(const PerAxis<count>& kernel, const MaxPoolOptions<count>& o) {
  return {count, kernel.sizes, o.stride.sizes, o.padding.sizes, o.dilation.sizes, o.ceil_mode, true, 0};
}
template <int count>
Pool pool_of(const PerAxis<count>& kernel, const AvgPoolOptions<count>& o) {
  return {count,   kernel.sizes, o.stride.sizes,      o.padding.sizes,
          nullptr, o.ceil_mode,  o.count_include_pad, o.divisor_override};
}
template <int count>
Pool pool_of(const PerAxis<count>& kernel, const MaxUnpoolOptions<count>& o) {
  return {count, kernel.sizes, o.stride.sizes, o.padding.sizes, nullptr, false, true, 0};
}
// Throw Error where a number is none that pooling can have.
void check_pool(const char* name, const Pool& how, Loc loc);
void check_adaptive_pool(const char* name, int count, const std::int64_t* sizes, Loc loc);
Tensor max_pool(const char* name, const At& x, const Pool& how);
Tensor avg_pool(const char* name, const At& x, const Pool& how);
Tensor adaptive_pool(const char* name, const At& x, int count, const std::int64_t* sizes, bool greatest);
ValuesAndIndices max_pool_with_indices(const char* name, const At& x, const Pool& how);
ValuesAndIndices adaptive_max_pool_with_indices(const char* name, const At& x, int count, const std::int64_t* sizes);
Tensor max_unpool(const char* name, const At& x, const At& indices, const Pool& how, const Sizes& output_size);
struct FractionalPool {
  int count;
  const std::int64_t *kernel, *output_size;
  const std::vector<double>& output_ratio;
  const Tensor& random_samples;
};
template <int count>
FractionalPool fractional_pool_of(const PerAxis<count>& kernel, const FractionalMaxPoolOptions<count>& o) {
  return {count, kernel.sizes, o.output_size.sizes, o.output_ratio, o.random_samples};
}
// As check_pool.
void check_fractional_pool(const char* name, const FractionalPool& how, Loc loc);
ValuesAndIndices fractional_max_pool(const char* name, const At& x, const FractionalPool& how, Generator& generator);
}  // namespace detail

// max_pool: the greatest of each window, whose derivative goes to the first one that is; NaN where one is NaN. Padding
// is at most half of the kernel, and is never the greatest. avg_pool: the mean. adaptive_*: sizes' windows of about
// equal size, from floor(i S / S') to ceil((i + 1) S / S'). *_with_indices: the same values, and where each one was,
// i64: its number among the elements of its plane, which max_unpool takes. max_unpool: zeros but for the elements of x
// [N,C,sizes...] or [C,sizes...], at these numbers in planes of the result; the last one of equal numbers stays, and
// the gradient goes to each. A number that is outside of the plane is an error.
#define WEFT_POOL(count)                                                                                               \
  using MaxPool##count##dOptions = MaxPoolOptions<count>;                                                              \
  using AvgPool##count##dOptions = AvgPoolOptions<count>;                                                              \
  inline Tensor max_pool##count##d(At x, PerAxis<count> kernel, MaxPool##count##dOptions o = {}) {                     \
    return detail::max_pool("max_pool" #count "d", x, detail::pool_of(kernel, o));                                     \
  }                                                                                                                    \
  inline Tensor avg_pool##count##d(At x, PerAxis<count> kernel, AvgPool##count##dOptions o = {}) {                     \
    return detail::avg_pool("avg_pool" #count "d", x, detail::pool_of(kernel, o));                                     \
  }                                                                                                                    \
  template <std::integral T, class... More>                                                                            \
  Tensor max_pool##count##d(At, PerAxis<count>, T, More...) = delete; /* weft: max_pool2d(x, 3, {.stride = 2}) */      \
  template <std::integral T, class... More>                                                                            \
  Tensor avg_pool##count##d(At, PerAxis<count>, T, More...) = delete; /* weft: avg_pool2d(x, 3, {.stride = 2}) */      \
  inline Tensor adaptive_max_pool##count##d(At x, PerAxis<count> sizes) {                                              \
    return detail::adaptive_pool("adaptive_max_pool" #count "d", x, count, sizes.sizes, true);                         \
  }                                                                                                                    \
  inline Tensor adaptive_avg_pool##count##d(At x, PerAxis<count> sizes) {                                              \
    return detail::adaptive_pool("adaptive_avg_pool" #count "d", x, count, sizes.sizes, false);                        \
  }                                                                                                                    \
  using MaxUnpool##count##dOptions = MaxUnpoolOptions<count>;                                                          \
  inline ValuesAndIndices max_pool##count##d_with_indices(At x, PerAxis<count> kernel,                                 \
                                                          MaxPool##count##dOptions o = {}) {                           \
    return detail::max_pool_with_indices("max_pool" #count "d_with_indices", x, detail::pool_of(kernel, o));           \
  }                                                                                                                    \
  inline ValuesAndIndices adaptive_max_pool##count##d_with_indices(At x, PerAxis<count> sizes) {                       \
    return detail::adaptive_max_pool_with_indices("adaptive_max_pool" #count "d_with_indices", x, count, sizes.sizes); \
  }                                                                                                                    \
  inline Tensor max_unpool##count##d(At x, At indices, PerAxis<count> kernel,                                          \
                                     const MaxUnpool##count##dOptions& o = {}) {                                       \
    return detail::max_unpool("max_unpool" #count "d", x, indices, detail::pool_of(kernel, o), o.output_size);         \
  }
WEFT_POOL(1)
WEFT_POOL(2)
WEFT_POOL(3)
#undef WEFT_POOL
// Windows of the kernel's size in random distances, which cover x about evenly (Graham 2014): the greatest of each, of
// equal ones the first, and where it was. Integers are refused.
#define WEFT_FRACTIONAL_POOL(count)                                                                                \
  using FractionalMaxPool##count##dOptions = FractionalMaxPoolOptions<count>;                                      \
  inline ValuesAndIndices fractional_max_pool##count##d_with_indices(At x, PerAxis<count> kernel,                  \
                                                                     const FractionalMaxPool##count##dOptions& o,  \
                                                                     Generator& generator = default_generator()) { \
    return detail::fractional_max_pool("fractional_max_pool" #count "d", x, detail::fractional_pool_of(kernel, o), \
                                       generator);                                                                 \
  }                                                                                                                \
  inline Tensor fractional_max_pool##count##d(At x, PerAxis<count> kernel,                                         \
                                              const FractionalMaxPool##count##dOptions& o,                         \
                                              Generator& generator = default_generator()) {                        \
    return fractional_max_pool##count##d_with_indices(x, kernel, o, generator).values;                             \
  }
WEFT_FRACTIONAL_POOL(2)
WEFT_FRACTIONAL_POOL(3)
#undef WEFT_FRACTIONAL_POOL

}  // namespace weft
