// Signals: short-time Fourier transforms, and the windows that they take. Names and meanings are those of torch.stft
// and torch.signal.windows.
#pragma once
#include "weft/fft.hpp"
#include "weft/ops.hpp"

namespace weft {

struct StftOptions {              // of stft
  std::int64_t hop_length = 0;    // from one frame to the next; 0: n_fft / 4
  std::int64_t win_length = 0;    // of the window, which has zeros on both sides up to n_fft; 0: n_fft
  Tensor window = {};             // [win_length]; undefined: ones
  bool center = true;             // the middle of frame t is at t hop_length: half a frame is added at both ends
  Pads pad_mode = Pads::reflect;  // what is added there
  bool normalized = false;        // divided by the root of n_fft
  bool onesided = true;           // the first n_fft / 2 + 1 frequencies; the others are their conjugates
};
// Fourier transforms of frames of n_fft points of a real x [L] or [B, L] (Gabor 1946): [..., frequencies, frames]. f32
// and f64. L may be symbolic. Throws Error on other shapes and dtypes, on numbers that are not positive, and where x is
// shorter than a frame.
fft::Complex stft(At x, std::int64_t n_fft, const StftOptions& options = {});

struct IstftOptions {           // of istft, as stft had them
  std::int64_t hop_length = 0;  // 0: n_fft / 4
  std::int64_t win_length = 0;  // 0: n_fft
  Tensor window = {};           // [win_length]; undefined: ones
  bool center = true;           // half a frame is cut off at both ends
  bool normalized = false;      // multiplied with the root of n_fft
  bool onesided = true;  // else x has n_fft frequencies, of which those after the first n_fft / 2 + 1 are not read
  Dim length = 0;        // of the result, which is cut or gets zeros at its end; 0: what the frames cover
};
// The real signal [L] or [B, L] of which a stft differs least from x (Griffin and Lim 1984): frames are added up and
// divided by the sum of the squares of their windows. Where that is below 1e-11 it is an error when it is computed.
// Throws Error on shapes that do not fit, and on numbers that are not positive.
Tensor istft(const fft::Complex& x, std::int64_t n_fft, const IstftOptions& options = {}, Loc loc = Loc::current());

// Windows of n points, in any floating dtype, computed in f64: 1 of one point. Symmetric ones, of which the first and
// last points are equal, are for filters; with sym = false one period of them, for spectra: torch.hann_window is
// hann(n, false). Throw Error on a negative n and on a dtype that is not floating.
namespace signal::windows {

Tensor hann(Dim n, bool sym = true, Options options = {}, Loc loc = Loc::current());  // 1/2 - 1/2 cos(2 pi k / (n - 1))
Tensor hamming(Dim n, bool sym = true, Options options = {}, Loc loc = Loc::current());   // 0.54 - 0.46 cos(...)
Tensor blackman(Dim n, bool sym = true, Options options = {}, Loc loc = Loc::current());  // 0.42, 0.5, 0.08
Tensor nuttall(Dim n, bool sym = true, Options options = {}, Loc loc = Loc::current());   // 0.3635819, 0.4891775, ...
Tensor bartlett(Dim n, bool sym = true, Options options = {}, Loc loc = Loc::current());  // a triangle from 0 to 1 to 0
Tensor cosine(Dim n, bool sym = true, Options options = {}, Loc loc = Loc::current());    // sin(pi (k + 1/2) / n)
// alpha - (1 - alpha) cos(2 pi k / (n - 1)).
Tensor general_hamming(Dim n, double alpha = 0.54, bool sym = true, Options options = {}, Loc loc = Loc::current());
// The sum of (-1)^i a[i] cos(2 pi i k / (n - 1)). Throws where there are no numbers.
Tensor general_cosine(Dim n, const std::vector<double>& a, bool sym = true, Options options = {},
                      Loc loc = Loc::current());
// exp(-(d / deviation)^2 / 2) of the distance d to the middle. Throws where the deviation is not positive.
Tensor gaussian(Dim n, double deviation = 1, bool sym = true, Options options = {}, Loc loc = Loc::current());
// exp(-d / tau) of the distance d to the middle. Throws where tau is not positive.
Tensor exponential(Dim n, double tau = 1, bool sym = true, Options options = {}, Loc loc = Loc::current());
// I0(beta sqrt(1 - t^2)) / I0(beta) for t from -1 to 1 (Kaiser 1974). Throws where beta is not in [0, 10,000].
Tensor kaiser(Dim n, double beta = 12, bool sym = true, Options options = {}, Loc loc = Loc::current());

}  // namespace signal::windows

}  // namespace weft
