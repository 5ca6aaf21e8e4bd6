#include "weft/nn/convolution.hpp"

#include <cmath>

#include "base/fail.hpp"
#include "record/record.hpp"

namespace weft::nn {
namespace {

// Uniform within 1 / sqrt(elements of weight[0]).
void draw(Param& weight, Param& bias, Generator& generator) {
  const Type type = type_of(weight.tensor());
  double elements = 1;
  for (int axis = 1; axis < type.shape.rank(); ++axis)
    elements *= static_cast<double>(static_cast<std::int64_t>(type.shape[axis]));
  const double bound = 1 / std::sqrt(elements);
  const Options options{type.dtype, type.device};
  weight.tensor() = uniform(type.shape, -bound, bound, generator, options);
  if (bias.tensor().defined()) bias.tensor() = uniform(type_of(bias.tensor()).shape, -bound, bound, generator, options);
}

template <int count>
void make(const char* name, Param& weight, Param& bias, std::int64_t first, std::int64_t second, std::int64_t out,
          std::int64_t groups, const PerAxis<count>& kernel, bool with_bias, Options options, Loc loc) {
  bool positive = first > 0 && second > 0;
  for (const std::int64_t size : kernel.sizes) positive &= size > 0;
  if (!positive) fail(name, loc, "sizes must be positive");
  if (groups < 1 || first % groups != 0 || second % groups != 0)
    fail(name, loc, counted(groups, "group does", "groups do"), " not divide ", first, " and ", second, " channels");
  Shape shape = Shape::of(first, second / groups);
  for (const std::int64_t size : kernel.sizes) shape.push_back(size);
  weight = zeros(shape, options, loc);
  if (with_bias)
    bias = zeros({out}, options, loc);
  else
    bias.frozen = true;
  draw(weight, bias, default_generator());
}

}  // namespace

template <int count>
Conv<count>::Conv(std::int64_t in, std::int64_t out, PerAxis<count> kernel, ConvLayerOptions<count> options, Loc loc)
    : stride(options.stride),
      padding(options.padding),
      dilation(options.dilation),
      groups(options.groups),
      padding_mode(options.padding_mode) {
  LooseComposite call("conv", loc);
  const ConvOptions<count> numbers{stride, padding, dilation, groups};
  weft::detail::check_convolve("conv", weft::detail::convolve_of(numbers), call.loc());
  make("conv", weight, bias, out, in, out, groups, kernel, options.bias, options.options, call.loc());
}
template <int count>
void Conv<count>::initialize(Generator& generator) {
  draw(weight, bias, generator);
}
template <int count>
Tensor Conv<count>::operator()(At x) const {
  LooseComposite call("conv", x.loc);
  Tensor value = resolve(x, "conv");
  ConvOptions<count> options{stride, padding, dilation, groups};
  if (padding_mode != Pads::constant) {
    Shape widths;
    for (int axis = count; axis-- > 0;) {
      const Dim kernel = type_of(weight.tensor()).shape[axis + 2];
      const Dim zeros = padding.same ? Dim(dilation[axis]) * (kernel - Dim(1)) : Dim(2 * padding.zeros[axis]);
      widths.push_back(zeros / Dim(2)), widths.push_back(zeros - zeros / Dim(2));
    }
    value = pad(value, widths, padding_mode);
    options.padding = 0;
  }
  constexpr const char* names[] = {"conv1d", "conv2d", "conv3d"};
  const At own = bias.tensor();
  return weft::detail::convolve(names[count - 1], value, weight, bias.tensor().defined() ? &own : nullptr,
                                weft::detail::convolve_of(options));
}

template <int count>
ConvTranspose<count>::ConvTranspose(std::int64_t in, std::int64_t out, PerAxis<count> kernel,
                                    ConvTransposeLayerOptions<count> options, Loc loc)
    : stride(options.stride),
      padding(options.padding),
      output_padding(options.output_padding),
      groups(options.groups),
      dilation(options.dilation) {
  LooseComposite call("conv_transpose", loc);
  const ConvTransposeOptions<count> numbers{stride, padding, output_padding, groups, dilation};
  weft::detail::check_convolve("conv_transpose", weft::detail::convolve_of(numbers), call.loc());
  make("conv_transpose", weight, bias, in, out, out, groups, kernel, options.bias, options.options, call.loc());
}
template <int count>
void ConvTranspose<count>::initialize(Generator& generator) {
  draw(weight, bias, generator);
}
template <int count>
Tensor ConvTranspose<count>::operator()(At x) const {
  LooseComposite call("conv_transpose", x.loc);
  constexpr const char* names[] = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
  const ConvTransposeOptions<count> options{stride, padding, output_padding, groups, dilation};
  const At own = bias.tensor();
  return weft::detail::convolve_transposed(names[count - 1], x, weight, bias.tensor().defined() ? &own : nullptr,
                                           weft::detail::convolve_of(options));
}

template struct Conv<1>;
template struct Conv<2>;
template struct Conv<3>;
template struct ConvTranspose<1>;
template struct ConvTranspose<2>;
template struct ConvTranspose<3>;

}  // namespace weft::nn
