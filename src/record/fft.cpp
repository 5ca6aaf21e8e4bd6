// Fourier transforms of public functions, over the primitive of rows.
#include "weft/fft.hpp"

#include <algorithm>

#include "base/number_checks.hpp"
#include "record/composite.hpp"
#include "record/linear_algebra.hpp"

namespace weft::fft {

WEFT_LINKS_LINEAR_ALGEBRA

namespace {

// In f32 or f64.
Tensor points(const char* name, const At& given, Loc loc) {
  const Tensor value = resolve(given, name);
  const Type& type = type_of(value);
  if (type.dtype == DType::f16 || type.dtype == DType::bf16)
    fail(name, loc, "needs f32 or f64, it is given ", to_string(type), ": cast it first");
  return is_floating(type.dtype) ? value : cast(value, DType::f32);
}
Complex points(const char* name, const Complex& x, Loc loc) {
  const Complex value{points(name, At(x.real, loc), loc), points(name, At(x.imag, loc), loc)};
  if (!(type_of(value.real).shape == type_of(value.imag).shape) ||
      type_of(value.real).dtype != type_of(value.imag).dtype)
    fail(name, loc, "the real and the imaginary part differ: ", to_string(type_of(value.real)), " and ",
         to_string(type_of(value.imag)));
  return value;
}
Complex real_points(const char* name, const At& given, Loc loc) {
  const Tensor real = points(name, given, loc);
  return {real, constant_like(0, type_of(real), loc)};
}

// The first n points along the axis, followed by zeros where there are fewer.
Tensor resized(const Tensor& x, int axis, Dim n) {
  const Dim size = type_of(x).shape[axis];
  if (n == size) return x;
  return n < size ? slice(x, axis, 0, n) : pad(x, axis, 0, n - size);
}

// Over the number that the norm asks for.
Tensor scaled(const Tensor& x, Dim n, Norm norm, bool inverse) {
  check_choice("fft", "Norm", norm, Norm::forward, recorder().loc);
  if (norm == (inverse ? Norm::forward : Norm::backward)) return x;
  const Tensor count = cast(dim_value(n, {}), type_of(x).dtype);
  return x / (norm == Norm::ortho ? sqrt(count) : count);
}

int axis_of(const char* name, const Tensor& x, int axis, Loc loc) {
  return normalize_axis(name, axis, type_of(x).shape.rank(), loc);
}

// Along one axis of points that are checked, n of them, at least 1.
Complex transform(const Complex& x, Dim n, int axis, Norm norm, bool inverse) {
  const auto row = [&](const Tensor& part) { return movedim(resized(part, axis, n), axis, -1); };
  const Tensor real = record(Op::fourier, {row(x.real), row(x.imag)}, Fourier{inverse}, {}, {});
  const auto back = [&](const Tensor& part) { return movedim(scaled(part, n, norm, inverse), -1, axis); };
  return {back(real), back(Tensor(real.node(), 1))};
}

// Of real points along one axis the first half, and back; of points that are checked, n of them, at least 1.
Complex half_transform(const Tensor& x, Dim n, int axis, Norm norm) {
  const Tensor real = record(Op::real_fourier, {movedim(resized(x, axis, n), axis, -1)}, {}, {}, {});
  const auto back = [&](const Tensor& part) { return movedim(scaled(part, n, norm, false), -1, axis); };
  return {back(real), back(Tensor(real.node(), 1))};
}

// The library counts points by int, twice as many of them and more than that of some lengths.
void check_points(const char* name, Dim n, Loc loc) {
  if (n.is_constant() && n.constant() > std::int64_t{1} << 28) fail(name, loc, "more than 2^28 points: ", n.constant());
}

Dim count_of(const char* name, const Tensor& x, Dim asked, int axis, Loc loc) {
  const Dim n = asked.same(Dim(0)) ? type_of(x).shape[axis] : asked;
  if (n < Dim(1)) fail(name, loc, "needs at least 1 point, of ", to_string(type_of(x)), " along axis ", axis);
  check_points(name, n, loc);
  return n;
}

Complex one_axis(const char* name, const Complex& x, const Options& options, bool inverse, Loc loc) {
  const int axis = axis_of(name, x.real, options.axis, loc);
  return transform(x, count_of(name, x.real, options.n, axis, loc), axis, options.norm, inverse);
}

// The inverse transform of points and of their conjugates.
Tensor from_half(const char* name, const Complex& x, Dim asked, int axis, Norm norm, Loc loc) {
  const Dim have = type_of(x.real).shape[axis];
  const Dim n = asked.same(Dim(0)) ? (have - Dim(1)) * Dim(2) : asked;
  if (n < Dim(1)) fail(name, loc, "needs at least 1 point, of ", to_string(type_of(x.real)), " along axis ", axis);
  check_points(name, n, loc);
  const Dim half = n / Dim(2) + Dim(1);
  const auto row = [&](const Tensor& part) { return movedim(resized(part, axis, half), axis, -1); };
  const Tensor points = record(Op::inverse_real_fourier, {row(x.real), row(x.imag)}, RealPoints{n}, {}, {});
  return movedim(scaled(points, n, norm, true), -1, axis);
}

// The axes, all of them where none is named.
std::vector<int> axes_of(const char* name, const Tensor& x, const Axes& axes, Loc loc) {
  std::vector<int> all;
  const int rank = type_of(x).shape.rank();
  if (axes.count() > rank) fail(name, loc, "more axes than ", to_string(type_of(x)), " has");
  for (int i = 0; i < axes.count(); ++i) {
    all.push_back(normalize_axis(name, axes[i], rank, loc));
    if (std::ranges::count(all, all.back()) > 1) fail(name, loc, "axis ", all.back(), " is named twice");
  }
  if (axes.count() == 0)
    for (int i = 0; i < rank; ++i) all.push_back(i);
  return all;
}

Complex many_axes(const char* name, Complex x, std::span<const int> axes, Norm norm, bool inverse, Loc loc) {
  for (std::size_t i = axes.size(); i-- > 0;)
    x = transform(x, count_of(name, x.real, 0, axes[i], loc), axes[i], norm, inverse);
  return x;
}

Complex real_axes(const char* name, const At& given, const Axes& axes, Norm norm, Loc loc) {
  const Tensor x = points(name, given, loc);
  const std::vector<int> all = axes_of(name, x, axes, loc);
  if (all.empty()) fail(name, loc, "a tensor of no axes has no points");
  const Complex half = half_transform(x, count_of(name, x, 0, all.back(), loc), all.back(), norm);
  return many_axes(name, half, std::span(all).first(all.size() - 1), norm, false, loc);
}

Tensor to_real_axes(const char* name, const Complex& given, Dim last, const Axes& axes, Norm norm, Loc loc) {
  const Complex x = points(name, given, loc);
  const std::vector<int> all = axes_of(name, x.real, axes, loc);
  if (all.empty()) fail(name, loc, "a tensor of no axes has no points");
  const Complex rest = many_axes(name, x, std::span(all).first(all.size() - 1), norm, true, loc);
  return from_half(name, rest, last, all.back(), norm, loc);
}

Tensor frequencies(const char* name, Dim n, double d, weft::Options options, bool half, Loc loc) {
  if (n < Dim(1)) fail(name, loc, "needs at least 1 point");
  check_extent(name, "the count of points", n, loc);
  const Dim count = half ? n / Dim(2) + Dim(1) : n;
  const Tensor k = positions(0, Shape::of(count), options.device, loc), size = dim_value(n, loc);
  const Tensor signed_k = half ? k : where(k * 2 < size, k, k - size);
  return cast(cast(signed_k, DType::f64) / (cast(size, DType::f64) * d), options.dtype);
}

Tensor shifted(const char* name, const At& given, const Axes& axes, bool back, Loc loc) {
  Tensor x = resolve(given, name);
  for (const int axis : axes_of(name, x, axes, loc)) {
    const Dim size = type_of(x).shape[axis];
    x = roll(x, back ? size - size / Dim(2) : size / Dim(2), axis);
  }
  return x;
}

}  // namespace

Complex fft(const Complex& x, Options options, Loc loc) {
  LooseComposite call("fft", loc);
  return one_axis("fft", points("fft", x, call.loc()), options, false, call.loc());
}
Complex fft(At x, Options options) {
  LooseComposite call("fft", x.loc);
  return one_axis("fft", real_points("fft", x, call.loc()), options, false, call.loc());
}
Complex ifft(const Complex& x, Options options, Loc loc) {
  LooseComposite call("ifft", loc);
  return one_axis("ifft", points("ifft", x, call.loc()), options, true, call.loc());
}
Complex ifft(At x, Options options) {
  LooseComposite call("ifft", x.loc);
  return one_axis("ifft", real_points("ifft", x, call.loc()), options, true, call.loc());
}
Complex rfft(At x, Options options) {
  LooseComposite call("rfft", x.loc);
  const Tensor value = points("rfft", x, call.loc());
  const int axis = axis_of("rfft", value, options.axis, call.loc());
  return half_transform(value, count_of("rfft", value, options.n, axis, call.loc()), axis, options.norm);
}
Tensor irfft(const Complex& x, Options options, Loc loc) {
  LooseComposite call("irfft", loc);
  const Complex value = points("irfft", x, call.loc());
  const int axis = axis_of("irfft", value.real, options.axis, call.loc());
  return from_half("irfft", value, options.n, axis, options.norm, call.loc());
}

namespace {

// Transforms of spectra that are real are those of signals that are, the other way round.
Norm other_way(Norm norm) {
  return norm == Norm::backward ? Norm::forward : norm == Norm::forward ? Norm::backward : norm;
}

}  // namespace

Tensor hfft(const Complex& x, Options options, Loc loc) {
  LooseComposite call("hfft", loc);
  options.norm = other_way(options.norm);
  const Complex value = points("hfft", x, call.loc());
  return irfft({value.real, -value.imag}, options, call.loc());
}
Complex ihfft(At x, Options options) {
  LooseComposite call("ihfft", x.loc);
  options.norm = other_way(options.norm);
  const Complex value = rfft(At(resolve(x, "ihfft"), call.loc()), options);
  return {value.real, -value.imag};
}

Complex polar(At magnitude, At angle) {
  LooseComposite call("polar", magnitude.loc);
  const Tensor size = points("polar", magnitude, call.loc()), turn = points("polar", angle, call.loc());
  return {size * cos(turn), size * sin(turn)};
}

Complex fftn(const Complex& x, AxesOptions options, Loc loc) {
  LooseComposite call("fftn", loc);
  const Complex value = points("fftn", x, call.loc());
  return many_axes("fftn", value, axes_of("fftn", value.real, options.axes, call.loc()), options.norm, false,
                   call.loc());
}
Complex fftn(At x, AxesOptions options) {
  LooseComposite call("fftn", x.loc);
  return fftn(real_points("fftn", x, call.loc()), options, call.loc());
}
Complex ifftn(const Complex& x, AxesOptions options, Loc loc) {
  LooseComposite call("ifftn", loc);
  const Complex value = points("ifftn", x, call.loc());
  return many_axes("ifftn", value, axes_of("ifftn", value.real, options.axes, call.loc()), options.norm, true,
                   call.loc());
}
Complex rfftn(At x, AxesOptions options) {
  LooseComposite call("rfftn", x.loc);
  return real_axes("rfftn", x, options.axes, options.norm, call.loc());
}
Tensor irfftn(const Complex& x, Dim last, AxesOptions options, Loc loc) {
  LooseComposite call("irfftn", loc);
  return to_real_axes("irfftn", x, last, options.axes, options.norm, call.loc());
}

Complex fft2(const Complex& x, Norm norm, Loc loc) { return fftn(x, {{-2, -1}, norm}, loc); }
Complex fft2(At x, Norm norm) { return fftn(x, {{-2, -1}, norm}); }
Complex ifft2(const Complex& x, Norm norm, Loc loc) { return ifftn(x, {{-2, -1}, norm}, loc); }
Complex rfft2(At x, Norm norm) { return rfftn(x, {{-2, -1}, norm}); }
Tensor irfft2(const Complex& x, Dim last, Norm norm, Loc loc) { return irfftn(x, last, {{-2, -1}, norm}, loc); }

Tensor fftfreq(Dim n, double d, weft::Options options, Loc loc) {
  LooseComposite call("fftfreq", loc);
  return frequencies("fftfreq", n, d, options, false, call.loc());
}
Tensor rfftfreq(Dim n, double d, weft::Options options, Loc loc) {
  LooseComposite call("rfftfreq", loc);
  return frequencies("rfftfreq", n, d, options, true, call.loc());
}
Tensor fftshift(At x, Axes axes) {
  LooseComposite call("fftshift", x.loc);
  return shifted("fftshift", x, axes, false, call.loc());
}
Tensor ifftshift(At x, Axes axes) {
  LooseComposite call("ifftshift", x.loc);
  return shifted("ifftshift", x, axes, true, call.loc());
}

}  // namespace weft::fft
