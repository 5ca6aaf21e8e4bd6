// Layers of convolutions and pooling over 1 to 3 axes, with PyTorch's names, defaults and initial values.
#pragma once
#include "weft/convolution.hpp"
#include "weft/random.hpp"

namespace weft::nn {

using weft::adaptive_avg_pool1d;
using weft::adaptive_avg_pool2d;
using weft::adaptive_avg_pool3d;
using weft::adaptive_max_pool1d;
using weft::adaptive_max_pool2d;
using weft::adaptive_max_pool3d;
using weft::avg_pool1d;
using weft::avg_pool2d;
using weft::avg_pool3d;
using weft::conv1d;
using weft::conv2d;
using weft::conv3d;
using weft::conv_transpose1d;
using weft::conv_transpose2d;
using weft::conv_transpose3d;
using weft::max_pool1d;
using weft::max_pool2d;
using weft::max_pool3d;

template <int count>
struct ConvLayerOptions {  // of Conv1d, Conv2d, Conv3d
  PerAxis<count> stride = 1;
  Padding<count> padding = 0;  // at both ends of each axis, of padding_mode; same_padding needs a stride of 1
  PerAxis<count> dilation = 1;
  std::int64_t groups = 1;
  bool bias = true;
  Pads padding_mode = Pads::constant;  // what the padding holds; constant: zeros
  Options options = {};
};
// x [N, in, sizes...] or [in, sizes...]: conv1d, conv2d or conv3d with a weight [out, in / groups, kernel...]. Weight
// and bias start uniform within 1 / sqrt(in / groups * kernel's elements). Throws Error on sizes that are not positive,
// on groups that do not divide the channels, and on options that are none of those they can be.
template <int count>
struct Conv {
  Conv() = delete;  // weft: it is made as nn::Conv2d(in, out, kernel)
  Conv(std::int64_t in, std::int64_t out, PerAxis<count> kernel, ConvLayerOptions<count> options = {},
       Loc loc = Loc::current());
  template <std::integral T, class... More>
  Conv(std::int64_t, std::int64_t, PerAxis<count>, T, More...) = delete;  // weft: nn::Conv2d(3, 8, 5, {.stride = 2})
  Tensor operator()(At x) const;
  void initialize(Generator& generator);

  Param weight;  // [out, in / groups, kernel...]
  Param bias;    // [out]; undefined and frozen where there is none
  PerAxis<count> stride;
  Padding<count> padding;  // at both ends of each axis
  PerAxis<count> dilation;
  std::int64_t groups;
  Pads padding_mode;  // what the padding holds; constant: zeros
  WEFT_MEMBERS(weight, bias, stride, padding, dilation, groups, padding_mode)
};
using Conv1d = Conv<1>;
using Conv2d = Conv<2>;
using Conv3d = Conv<3>;

template <int count>
struct ConvTransposeLayerOptions {    // of ConvTranspose1d, 2d, 3d
  PerAxis<count> stride = 1;          // how far apart neighbours of x lie in the result, by axis
  PerAxis<count> padding = 0;         // cut off at both ends of each axis of the result
  PerAxis<count> output_padding = 0;  // added to the result's size at its end; less than stride or dilation
  std::int64_t groups = 1;
  bool bias = true;
  PerAxis<count> dilation = 1;
  Options options = {};
};
// The same for conv_transpose1d, 2d, 3d: a weight [in, out / groups, kernel...].
template <int count>
struct ConvTranspose {
  ConvTranspose() = delete;  // weft: it is made as nn::ConvTranspose2d(in, out, kernel)
  ConvTranspose(std::int64_t in, std::int64_t out, PerAxis<count> kernel, ConvTransposeLayerOptions<count> options = {},
                Loc loc = Loc::current());
  template <std::integral T, class... More>
  ConvTranspose(std::int64_t, std::int64_t, PerAxis<count>, T, More...) = delete;  // weft: options: {.stride = 2}
  Tensor operator()(At x) const;
  void initialize(Generator& generator);

  Param weight;                   // [in, out / groups, kernel...]
  Param bias;                     // [out]; undefined and frozen where there is none
  PerAxis<count> stride;          // how far apart neighbours of x lie in the result, by axis
  PerAxis<count> padding;         // cut off at both ends of each axis of the result
  PerAxis<count> output_padding;  // added to the result's size at its end
  std::int64_t groups;
  PerAxis<count> dilation;
  WEFT_MEMBERS(weight, bias, stride, padding, output_padding, groups, dilation)
};
using ConvTranspose1d = ConvTranspose<1>;
using ConvTranspose2d = ConvTranspose<2>;
using ConvTranspose3d = ConvTranspose<3>;

// The functions of weft/convolution.hpp as layers. Constructors throw Error on options that are none of those they can
// be.
#define WEFT_POOL_LAYERS(count)                                                                             \
  struct MaxPool##count##d {                                                                                \
    MaxPool##count##d(PerAxis<count> size, MaxPool##count##dOptions how = {}, Loc loc = Loc::current())     \
        : kernel(size), options(how) {                                                                      \
      weft::detail::check_pool("MaxPool" #count "d", weft::detail::pool_of(kernel, options), loc);          \
    }                                                                                                       \
    template <std::integral T, std::size_t length>                                                          \
    MaxPool##count##d(const T (&each)[length], MaxPool##count##dOptions how = {}, Loc loc = Loc::current()) \
        : MaxPool##count##d(weft::detail::per_axis<count>(each), how, loc) {}                               \
    template <std::integral T, class... More>                                                               \
    MaxPool##count##d(PerAxis<count>, T, More...) = delete; /* weft: options: {.stride = 2} */              \
    Tensor operator()(At x) const { return max_pool##count##d(x, kernel, options); }                        \
    PerAxis<count> kernel;                                                                                  \
    MaxPool##count##dOptions options;                                                                       \
    WEFT_MEMBERS(kernel, options)                                                                           \
  };                                                                                                        \
  struct AvgPool##count##d {                                                                                \
    AvgPool##count##d(PerAxis<count> size, AvgPool##count##dOptions how = {}, Loc loc = Loc::current())     \
        : kernel(size), options(how) {                                                                      \
      weft::detail::check_pool("AvgPool" #count "d", weft::detail::pool_of(kernel, options), loc);          \
    }                                                                                                       \
    template <std::integral T, std::size_t length>                                                          \
    AvgPool##count##d(const T (&each)[length], AvgPool##count##dOptions how = {}, Loc loc = Loc::current()) \
        : AvgPool##count##d(weft::detail::per_axis<count>(each), how, loc) {}                               \
    template <std::integral T, class... More>                                                               \
    AvgPool##count##d(PerAxis<count>, T, More...) = delete; /* weft: options: {.stride = 2} */              \
    Tensor operator()(At x) const { return avg_pool##count##d(x, kernel, options); }                        \
    PerAxis<count> kernel;                                                                                  \
    AvgPool##count##dOptions options;                                                                       \
    WEFT_MEMBERS(kernel, options)                                                                           \
  };                                                                                                        \
  struct AdaptiveMaxPool##count##d {                                                                        \
    explicit AdaptiveMaxPool##count##d(PerAxis<count> given, Loc loc = Loc::current()) : sizes(given) {     \
      weft::detail::check_adaptive_pool("AdaptiveMaxPool" #count "d", count, sizes.sizes, loc);             \
    }                                                                                                       \
    template <std::integral T, std::size_t length>                                                          \
    explicit AdaptiveMaxPool##count##d(const T (&each)[length], Loc loc = Loc::current())                   \
        : AdaptiveMaxPool##count##d(weft::detail::per_axis<count>(each), loc) {}                            \
    Tensor operator()(At x) const { return adaptive_max_pool##count##d(x, sizes); }                         \
    PerAxis<count> sizes;                                                                                   \
    WEFT_MEMBERS(sizes)                                                                                     \
  };                                                                                                        \
  struct AdaptiveAvgPool##count##d {                                                                        \
    explicit AdaptiveAvgPool##count##d(PerAxis<count> given, Loc loc = Loc::current()) : sizes(given) {     \
      weft::detail::check_adaptive_pool("AdaptiveAvgPool" #count "d", count, sizes.sizes, loc);             \
    }                                                                                                       \
    template <std::integral T, std::size_t length>                                                          \
    explicit AdaptiveAvgPool##count##d(const T (&each)[length], Loc loc = Loc::current())                   \
        : AdaptiveAvgPool##count##d(weft::detail::per_axis<count>(each), loc) {}                            \
    Tensor operator()(At x) const { return adaptive_avg_pool##count##d(x, sizes); }                         \
    PerAxis<count> sizes;                                                                                   \
    WEFT_MEMBERS(sizes)                                                                                     \
  };
WEFT_POOL_LAYERS(1)
WEFT_POOL_LAYERS(2)
WEFT_POOL_LAYERS(3)
#undef WEFT_POOL_LAYERS

template <int count>
struct MaxUnpoolLayerOptions {  // of MaxUnpool1d, 2d, 3d
  PerAxis<count> stride = 0;    // 0: the kernel's size
  PerAxis<count> padding = 0;   // as the pooling had it
};
// max_unpool1d, 2d, 3d as layers: they are called with the values, where each one was, and sizes of the result or none.
// The constructor throws Error on options that max_pool cannot have.
#define WEFT_UNPOOL_LAYERS(count)                                                                                 \
  struct MaxUnpool##count##d {                                                                                    \
    MaxUnpool##count##d(PerAxis<count> size, MaxUnpoolLayerOptions<count> how = {}, Loc loc = Loc::current())     \
        : kernel(size), options(how) {                                                                            \
      const MaxUnpool##count##dOptions whole{.stride = how.stride, .padding = how.padding};                       \
      weft::detail::check_pool("MaxUnpool" #count "d", weft::detail::pool_of(kernel, whole), loc);                \
    }                                                                                                             \
    template <std::integral T, std::size_t length>                                                                \
    MaxUnpool##count##d(const T (&each)[length], MaxUnpoolLayerOptions<count> how = {}, Loc loc = Loc::current()) \
        : MaxUnpool##count##d(weft::detail::per_axis<count>(each), how, loc) {}                                   \
    Tensor operator()(At x, At indices, const Sizes& output_size = {}) const {                                    \
      return max_unpool##count##d(x, indices, kernel, {options.stride, options.padding, output_size});            \
    }                                                                                                             \
    PerAxis<count> kernel;                                                                                        \
    MaxUnpoolLayerOptions<count> options;                                                                         \
    WEFT_MEMBERS(kernel, options)                                                                                 \
  };
WEFT_UNPOOL_LAYERS(1)
WEFT_UNPOOL_LAYERS(2)
WEFT_UNPOOL_LAYERS(3)
#undef WEFT_UNPOOL_LAYERS

// fractional_max_pool2d, 3d as layers, which give the values alone. The constructor throws Error unless there is one of
// output_size and output_ratio, with sizes that are positive or ratios between 0 and 1.
#define WEFT_FRACTIONAL_POOL_LAYERS(count)                                                                             \
  struct FractionalMaxPool##count##d {                                                                                 \
    FractionalMaxPool##count##d(PerAxis<count> size, FractionalMaxPool##count##dOptions how, Loc loc = Loc::current()) \
        : kernel(size), options(std::move(how)) {                                                                      \
      weft::detail::check_fractional_pool("FractionalMaxPool" #count "d",                                              \
                                          weft::detail::fractional_pool_of(kernel, options), loc);                     \
    }                                                                                                                  \
    Tensor operator()(At x, Generator& generator = default_generator()) const {                                        \
      return fractional_max_pool##count##d(x, kernel, options, generator);                                             \
    }                                                                                                                  \
    PerAxis<count> kernel;                                                                                             \
    FractionalMaxPool##count##dOptions options;                                                                        \
    WEFT_MEMBERS(kernel, options)                                                                                      \
  };
WEFT_FRACTIONAL_POOL_LAYERS(2)
WEFT_FRACTIONAL_POOL_LAYERS(3)
#undef WEFT_FRACTIONAL_POOL_LAYERS

}  // namespace weft::nn
