// Fourier transforms by the KissFFT that Eigen has: of lengths whose prime factors are small, in n log n. Other lengths
// are a convolution of a length that is a power of two (Bluestein 1970).
#include <cmath>
#include <complex>
#include <memory>
#include <numbers>
#include <unsupported/Eigen/FFT>
#include <vector>

#include "base/per_thread.hpp"
#include "runtime/host/factorization.hpp"

namespace weft::runtime {

namespace {

constexpr std::int64_t greatest_factor = 31;  // above it Bluestein's way is the shorter one

bool has_small_factors(std::int64_t n) {
  for (std::int64_t factor = 2; factor <= greatest_factor; ++factor)
    while (n % factor == 0) n /= factor;
  return n == 1;
}

template <class T>
class Transform {
 public:
  using Complex = std::complex<T>;

  Transform(std::int64_t n, bool inverse) : n_(n), inverse_(inverse), size_(n) {
    if (has_small_factors(n)) return;
    size_ = 1;
    while (size_ < 2 * n - 1) size_ *= 2;
    chirp_.resize(static_cast<std::size_t>(n));
    filter_.resize(static_cast<std::size_t>(size_));
    std::vector<Complex> taps(static_cast<std::size_t>(size_));
    std::int64_t square = 0;  // j^2 modulo 2 n
    for (std::int64_t j = 0; j < n; ++j) {
      const double angle = std::numbers::pi * static_cast<double>(square) / static_cast<double>(n);
      const auto at = static_cast<std::size_t>(j);
      chirp_[at] =
          Complex(static_cast<T>(std::cos(angle)), static_cast<T>(inverse ? std::sin(angle) : -std::sin(angle)));
      taps[at] = std::conj(chirp_[at]);
      if (j > 0) taps[static_cast<std::size_t>(size_ - j)] = taps[at];
      square = (square + 2 * j + 1) % (2 * n);
    }
    engine_.fwd(filter_.data(), taps.data(), static_cast<int>(size_));
  }

  bool is(std::int64_t n, bool inverse) const { return n_ == n && inverse_ == inverse; }
  // Not in place.
  void run(const Complex* from, Complex* to) {
    if (n_ == 1) {
      to[0] = from[0];
      return;
    }
    if (chirp_.empty()) return plain(from, to, inverse_);
    work_.assign(static_cast<std::size_t>(size_), Complex());
    other_.resize(static_cast<std::size_t>(size_));
    const auto n = static_cast<std::size_t>(n_);
    for (std::size_t j = 0; j < n; ++j) work_[j] = times(from[j], chirp_[j]);
    plain(work_.data(), other_.data(), false);
    for (std::size_t j = 0; j < other_.size(); ++j) other_[j] = times(other_[j], filter_[j]);
    plain(other_.data(), work_.data(), true);
    const T scale = T(1) / static_cast<T>(size_);
    for (std::size_t j = 0; j < n; ++j) to[j] = times(work_[j], chirp_[j]) * scale;
  }

 private:
  // Without the tests for infinities that std::complex makes.
  static Complex times(Complex a, Complex b) {
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  }
  void plain(const Complex* from, Complex* to, bool inverse) {
    if (inverse)
      engine_.inv(to, from, static_cast<int>(size_));
    else
      engine_.fwd(to, from, static_cast<int>(size_));
  }

  std::int64_t n_;
  bool inverse_;
  std::int64_t size_;  // of the transforms that the engine does
  ::Eigen::internal::kissfft_impl<T> engine_;
  std::vector<Complex> chirp_, filter_, work_, other_;
};

constexpr std::int64_t longest_kept = 1 << 16;

// The last few transforms of a thread: their tables take longer to make than one row to transform.
template <class T>
struct Kept {
  static constexpr std::size_t count = 4;
  std::unique_ptr<Transform<T>> transforms[count];
  std::size_t next = 0;

  Transform<T>& find(std::int64_t n, bool inverse) {
    for (const std::unique_ptr<Transform<T>>& each : transforms)
      if (each && each->is(n, inverse)) return *each;
    std::unique_ptr<Transform<T>>& place = transforms[next];
    place = std::make_unique<Transform<T>>(n, inverse);
    next = (next + 1) % count;
    return *place;
  }
};

template <class T>
void transform_as(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = call.sizes.columns;
  if (n == 0 || begin >= end) return;
  std::unique_ptr<Transform<T>> own;
  if (n > longest_kept) own = std::make_unique<Transform<T>>(n, call.what.inverse);
  Transform<T>& transform = own ? *own : per_thread<Kept<T>>().find(n, call.what.inverse);
  std::vector<std::complex<T>> from(static_cast<std::size_t>(n)), to(from.size());
  for (std::int64_t row = begin; row < end; ++row) {
    const auto at = [&](int buffer) { return static_cast<T*>(call.buffers[buffer]) + row * n; };
    const T *const real = at(0), *const imag = at(1);
    T *const real_to = at(2), *const imag_to = at(3);
    for (std::int64_t j = 0; j < n; ++j) from[static_cast<std::size_t>(j)] = {real[j], imag[j]};
    transform.run(from.data(), to.data());
    for (std::int64_t j = 0; j < n; ++j) {
      real_to[j] = to[static_cast<std::size_t>(j)].real();
      imag_to[j] = to[static_cast<std::size_t>(j)].imag();
    }
  }
}

}  // namespace

void transform_rows(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  call.what.dtype == DType::f64 ? transform_as<double>(call, begin, end) : transform_as<float>(call, begin, end);
}

}  // namespace weft::runtime
