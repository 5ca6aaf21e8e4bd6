// Windows of images as columns, and columns added up to images.
#include "base/fail.hpp"
#include "base/number_checks.hpp"
#include "record/record.hpp"
#include "weft/nn/vision.hpp"

namespace weft::nn {

namespace {

// Windows of an image of these sizes, along each axis.
struct WindowsOfImage {
  Dim count[2];
};
WindowsOfImage windows_of(const char* name, const Dim (&sizes)[2], const PerAxis<2>& kernel,
                          const UnfoldOptions& options, Loc loc) {
  WindowsOfImage windows;
  for (int i = 0; i < 2; ++i) {
    if (kernel[i] < 1 || options.stride[i] < 1 || options.dilation[i] < 1 || options.padding[i] < 0)
      fail(name, loc, "kernel, stride and dilation must be positive and padding not negative: ", kernel[i], ", ",
           options.stride[i], ", ", options.dilation[i], " and ", options.padding[i]);
    for (const std::int64_t each : {kernel[i], options.stride[i], options.dilation[i], options.padding[i]})
      check_extent(name, "a number of the options", each, loc);
    const Dim reach = Dim(options.dilation[i]) * Dim(kernel[i] - 1) + Dim(1);
    const Dim whole = sizes[i] + Dim(2) * Dim(options.padding[i]);
    if (reach.beyond() || whole < reach)
      fail(name, loc, "a window of ", dims::to_string(reach), " does not fit into ", dims::to_string(sizes[i]),
           " elements and padding");
    windows.count[i] = (whole - reach) / Dim(options.stride[i]) + Dim(1);
  }
  return windows;
}

}  // namespace

Tensor unfold(At given, PerAxis<2> kernel, UnfoldOptions options) {
  constexpr const char* name = "unfold";
  LooseComposite call(name, given.loc);
  Tensor x = resolve(given, name);
  const Type type = type_of(x);
  const int rank = type.shape.rank();
  if (rank != 3 && rank != 4) fail(name, call.loc(), "takes an image [N,C,H,W] or [C,H,W]: ", to_string(type));
  if (rank == 3) x = unsqueeze(x, 0);
  const Shape shape = type_of(x).shape;
  const Dim sizes[2] = {shape[2], shape[3]};
  const WindowsOfImage windows = windows_of(name, sizes, kernel, options, call.loc());
  for (int i = 2; i-- > 0;) {
    if (options.padding[i] > 0) x = pad(x, 2 + i, options.padding[i], options.padding[i]);
    x = record(Op::windows, {x},
               Windows{kernel[i], options.stride[i], options.dilation[i], static_cast<std::uint8_t>(2 + i)}, {},
               call.loc());
  }
  // [N,C,k,H',k',W'].
  const Shape columns =
      Shape::of(shape[0], shape[1] * Dim(kernel[0]) * Dim(kernel[1]), windows.count[0] * windows.count[1]);
  x = reshape_to(permute(x, {0, 1, 2, 4, 3, 5}), columns, call.loc());
  return rank == 3 ? squeeze(x, 0) : x;
}

Tensor fold(At given, Sizes output_size, PerAxis<2> kernel, UnfoldOptions options) {
  constexpr const char* name = "fold";
  LooseComposite call(name, given.loc);
  Tensor x = resolve(given, name);
  const Type type = type_of(x);
  const int rank = type.shape.rank();
  if (rank != 2 && rank != 3)
    fail(name, call.loc(), "takes columns [N, C k k', windows] or [C k k', windows]: ", to_string(type));
  const Shape& wanted = output_size.shape();
  if (wanted.rank() != 2 || wanted[0] < Dim(1) || wanted[1] < Dim(1))
    fail(name, call.loc(), "output_size needs 2 positive sizes: ", wanted);
  if (rank == 2) x = unsqueeze(x, 0);
  const Dim sizes[2] = {wanted[0], wanted[1]};
  const WindowsOfImage windows = windows_of(name, sizes, kernel, options, call.loc());
  const Shape shape = type_of(x).shape;
  const Dim places = Dim(kernel[0]) * Dim(kernel[1]);
  if (!(shape[1] % places == Dim(0)) || !(shape[2] == windows.count[0] * windows.count[1]))
    fail(name, call.loc(), "needs columns of a multiple of ", dims::to_string(places), " elements for ",
         dims::to_string(windows.count[0]), " x ", dims::to_string(windows.count[1]), " windows: ", to_string(type));
  for (const std::int64_t size : {kernel[0], kernel[1]}) check_recorded(name, "a kernel's size", size, call.loc());
  const Shape apart = Shape::of(shape[0], shape[1] / places, kernel[0], kernel[1], windows.count[0], windows.count[1]);
  x = permute(reshape_to(x, apart, call.loc()), {0, 1, 2, 4, 3, 5});
  for (int i = 2; i-- > 0;) {  // [..., k, windows] at axis 2 + 2 i
    const int axis = 2 + 2 * i;
    const std::int64_t stride = options.stride[i];
    const Dim length = (windows.count[i] - Dim(1)) * Dim(stride) + Dim(1);
    const Dim whole = sizes[i] + Dim(2 * options.padding[i]);
    Tensor total;
    for (std::int64_t place = 0; place < kernel[i]; ++place) {
      const Dim before = place * options.dilation[i];
      const Tensor spread = pad(select(x, axis, place), axis, before, whole - before - length, stride - 1);
      total = place == 0 ? spread : total + spread;
    }
    x = slice(total, axis, options.padding[i], Dim(options.padding[i]) + sizes[i]);
  }
  return rank == 2 ? squeeze(x, 0) : x;
}

}  // namespace weft::nn
