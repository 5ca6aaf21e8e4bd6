// Fourier transforms: of lengths whose prime factors are small by stages, in n log n (runtime/host/fourier_stage.hpp).
// Other lengths are a convolution of a length that is a power of two (Bluestein 1970).
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <utility>
#include <vector>

#include "base/per_thread.hpp"
#include "runtime/host/factorization.hpp"
#include "runtime/host/fourier_stage.hpp"
#include "runtime/host/isa.hpp"

namespace weft::runtime {

namespace {

constexpr std::int64_t greatest_factor = 31;  // above it Bluestein's way is the shorter one

bool has_small_factors(std::int64_t n) {
  for (std::int64_t factor = 2; factor <= greatest_factor; ++factor)
    while (n % factor == 0) n /= factor;
  return n == 1;
}

template <class T>
void run_stage(const FourierStage& stage, FourierPlanes<const T> tables, FourierPlanes<const T> from,
               FourierPlanes<T> to) {
  switch (host_isa()) {
    case Isa::baseline: return baseline::fourier_stage(stage, tables, from, to);
    case Isa::avx2: return avx2::fourier_stage(stage, tables, from, to);
    case Isa::avx512: return avx512::fourier_stage(stage, tables, from, to);
  }
}

template <class T>
struct Row {
  std::vector<T> real, imag;

  explicit Row(std::int64_t size = 0) : real(static_cast<std::size_t>(size)), imag(real.size()) {}
  FourierPlanes<T> planes() { return {real.data(), imag.data()}; }
  FourierPlanes<const T> read() const { return {real.data(), imag.data()}; }
  template <class U>
  void push(U real_part, U imag_part) {
    real.push_back(static_cast<T>(real_part));
    imag.push_back(static_cast<T>(imag_part));
  }
};

// exp(-2 pi i j / n), as the product of one of few coarse steps and one of few fine ones.
class RootsOfUnity {
 public:
  explicit RootsOfUnity(std::int64_t n) : n_(n) {
    while (step_ * step_ < n) ++step_;
    for (std::int64_t j = 0; j <= n / step_; ++j) push(coarse_, j * step_);
    for (std::int64_t j = 0; j < step_; ++j) push(fine_, j);
  }
  template <class T>
  void push_to(Row<T>& row, std::int64_t j) const {
    j %= n_;
    const auto a = static_cast<std::size_t>(j / step_), b = static_cast<std::size_t>(j % step_);
    row.push(coarse_.real[a] * fine_.real[b] - coarse_.imag[a] * fine_.imag[b],
             coarse_.real[a] * fine_.imag[b] + coarse_.imag[a] * fine_.real[b]);
  }

 private:
  void push(Row<long double>& row, std::int64_t j) const {
    const long double angle =
        -2 * std::numbers::pi_v<long double> * static_cast<long double>(j) / static_cast<long double>(n_);
    row.push(std::cos(angle), std::sin(angle));
  }

  std::int64_t n_, step_ = 1;
  Row<long double> coarse_, fine_;
};

// The transform of a length whose prime factors are small, by stages. An inverse one, which is not scaled, is that of
// the planes exchanged.
template <class T>
class Stages {
 public:
  explicit Stages(std::int64_t n) : one_(n), other_(n) {
    const RootsOfUnity roots(n);
    std::int64_t stride = 1, length = n;
    while (length > 1) {
      // Lanes run over the stride, which the first stage makes long.
      std::int64_t radix = length % 8 == 0 && (stride == 1 || length == 8) ? 8 : length % 4 == 0 ? 4 : 2;
      while (length % radix != 0) ++radix;
      FourierStage stage{radix, length, stride, static_cast<std::int64_t>(tables_.real.size()), 0};
      const std::int64_t part = length / radix;
      for (std::int64_t k = 1; k < radix; ++k)
        for (std::int64_t p = 0; p < part; ++p) roots.push_to(tables_, k * p * stride);
      stage.roots = static_cast<std::int64_t>(tables_.real.size());
      for (std::int64_t j = 0; j < radix; ++j) roots.push_to(tables_, j * (n / radix));
      stages_.push_back(stage);
      stride *= radix;
      length = part;
    }
  }

  // Not in place; of at least 2 numbers.
  void run(FourierPlanes<const T> from, FourierPlanes<T> to, bool inverse) {
    if (inverse) {
      std::swap(from.real, from.imag);
      std::swap(to.real, to.imag);
    }
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      Row<T>& next = i % 2 == 0 ? one_ : other_;
      const FourierPlanes<T> into = i + 1 == stages_.size() ? to : next.planes();
      run_stage<T>(stages_[i], tables_.read(), from, into);
      from = {into.real, into.imag};
    }
  }

 private:
  std::vector<FourierStage> stages_;
  Row<T> tables_, one_, other_;  // roots of unity; what lies between stages
};

template <class T>
class Transform {
 public:
  Transform(std::int64_t n, bool inverse) : n_(n), inverse_(inverse), size_(convolved_size(n)), stages_(size_) {
    if (size_ == n) return;
    chirp_ = Row<T>(n);
    filter_ = work_ = other_ = Row<T>(size_);
    Row<T> taps(size_);
    std::int64_t square = 0;  // j^2 modulo 2 n
    for (std::int64_t j = 0; j < n; ++j) {
      const double angle = std::numbers::pi * static_cast<double>(square) / static_cast<double>(n);
      const auto at = static_cast<std::size_t>(j), mirrored = static_cast<std::size_t>(j > 0 ? size_ - j : 0);
      chirp_.real[at] = taps.real[at] = taps.real[mirrored] = static_cast<T>(std::cos(angle));
      chirp_.imag[at] = static_cast<T>(inverse ? std::sin(angle) : -std::sin(angle));
      taps.imag[at] = taps.imag[mirrored] = -chirp_.imag[at];
      square = (square + 2 * j + 1) % (2 * n);
    }
    stages_.run(taps.read(), filter_.planes(), false);
  }

  bool is(std::int64_t n, bool inverse) const { return n_ == n && inverse_ == inverse; }
  // Not in place.
  void run(FourierPlanes<const T> from, FourierPlanes<T> to) {
    if (n_ == 1) {
      *to.real = *from.real;
      *to.imag = *from.imag;
      return;
    }
    if (size_ == n_) return stages_.run(from, to, inverse_);
    multiply(from, chirp_.read(), work_.planes(), n_, 1);
    std::fill(work_.real.begin() + n_, work_.real.end(), T(0));
    std::fill(work_.imag.begin() + n_, work_.imag.end(), T(0));
    stages_.run(work_.read(), other_.planes(), false);
    multiply(other_.read(), filter_.read(), other_.planes(), size_, 1);
    stages_.run(other_.read(), work_.planes(), true);
    multiply(work_.read(), chirp_.read(), to, n_, T(1) / static_cast<T>(size_));
  }

 private:
  static std::int64_t convolved_size(std::int64_t n) {
    if (has_small_factors(n)) return n;
    std::int64_t size = 1;
    while (size < 2 * n - 1) size *= 2;
    return size;
  }
  static void multiply(FourierPlanes<const T> a, FourierPlanes<const T> b, FourierPlanes<T> to, std::int64_t count,
                       T scale) {
    for (std::int64_t i = 0; i < count; ++i) {
      const T real = a.real[i] * b.real[i] - a.imag[i] * b.imag[i],
              imag = a.real[i] * b.imag[i] + a.imag[i] * b.real[i];
      to.real[i] = real * scale;
      to.imag[i] = imag * scale;
    }
  }

  std::int64_t n_;
  bool inverse_;
  std::int64_t size_;  // of the transforms that are done by stages
  Stages<T> stages_;
  Row<T> chirp_, filter_, work_, other_;
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
  for (std::int64_t row = begin; row < end; ++row) {
    const auto at = [&](int buffer) { return static_cast<T*>(call.buffers[buffer]) + row * n; };
    transform.run({at(0), at(1)}, {at(2), at(3)});
  }
}

}  // namespace

void transform_rows(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  call.what.dtype == DType::f64 ? transform_as<double>(call, begin, end) : transform_as<float>(call, begin, end);
}

}  // namespace weft::runtime
