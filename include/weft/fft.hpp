// Discrete Fourier transforms. Names and meanings are those of torch.fft. Weft has no complex dtype: a complex tensor
// is a pair of tensors of one shape. Operands are f32 or f64, and integers, which become f32; others throw with the
// caller's line.
#pragma once
#include "weft/ops.hpp"

namespace weft::fft {

struct Complex {  // a complex tensor: two of one shape and dtype
  Tensor real;    // the real parts
  Tensor imag;    // the imaginary parts
  WEFT_MEMBERS(real, imag)
};

// Where the factor of 1/n is: in the inverse, half of it in both (1/sqrt(n)), or in the forward transform.
enum class Norm : std::uint8_t { backward, ortho, forward };

struct Options {               // of transforms along one axis
  Dim n = 0;                   // points: the operand is cut or continued with zeros; 0: as many as there are
  int axis = -1;               // along which x is transformed; a negative one counts from the last
  Norm norm = Norm::backward;  // where the factor of 1/n is
};
// y[k] = sum_j x[j] exp(-2 pi i j k / n); in ifft the sign is plus. Throws where there are no points.
Complex fft(const Complex& x, Options options = {}, Loc loc = Loc::current());
Complex fft(At x, Options options = {});
Complex ifft(const Complex& x, Options options = {}, Loc loc = Loc::current());
Complex ifft(At x, Options options = {});
// Of real points: the first n / 2 + 1, the others being their conjugates.
Complex rfft(At x, Options options = {});
// What rfft transforms to x: n real points, by default 2 (m - 1) of the m along the axis. Imaginary parts at 0 and n /
// 2 do not count.
Tensor irfft(const Complex& x, Options options = {}, Loc loc = Loc::current());
// The transform of points whose other half are the conjugates of the m along the axis: n real ones, by default 2 (m -
// 1), irfft of the conjugates with the norm of the forward transform. ihfft is its inverse: n / 2 + 1 of n real points.
Tensor hfft(const Complex& x, Options options = {}, Loc loc = Loc::current());
Complex ihfft(At x, Options options = {});

// The number with this magnitude and this angle: magnitude cos(angle) + i magnitude sin(angle). Operands broadcast.
Complex polar(At magnitude, At angle);

// Along each of some axes; by default all of them.
struct AxesOptions {
  Axes axes = {};              // empty: all
  Norm norm = Norm::backward;  // where the factor of 1/n is, n the product of the sizes
};
Complex fftn(const Complex& x, AxesOptions options = {}, Loc loc = Loc::current());
Complex fftn(At x, AxesOptions options = {});
Complex ifftn(const Complex& x, AxesOptions options = {}, Loc loc = Loc::current());
// The last one of the axes has the real transform.
Complex rfftn(At x, AxesOptions options = {});
// `last`: real points along the last one of the axes; 0: 2 (m - 1).
Tensor irfftn(const Complex& x, Dim last = 0, AxesOptions options = {}, Loc loc = Loc::current());
// Along the last two axes.
Complex fft2(const Complex& x, Norm norm = Norm::backward, Loc loc = Loc::current());
Complex fft2(At x, Norm norm = Norm::backward);
Complex ifft2(const Complex& x, Norm norm = Norm::backward, Loc loc = Loc::current());
Complex rfft2(At x, Norm norm = Norm::backward);
Tensor irfft2(const Complex& x, Dim last = 0, Norm norm = Norm::backward, Loc loc = Loc::current());

// Frequencies of the points of fft and rfft, in cycles per unit of the spacing d.
Tensor fftfreq(Dim n, double d = 1, weft::Options options = {}, Loc loc = Loc::current());
Tensor rfftfreq(Dim n, double d = 1, weft::Options options = {}, Loc loc = Loc::current());
// Moves frequency 0 to the middle of the axes, by default all; and back.
Tensor fftshift(At x, Axes axes = {});
Tensor ifftshift(At x, Axes axes = {});

}  // namespace weft::fft
