// Fourier transforms: of lengths whose prime factors are small in n log n (runtime/host/fourier_rows.hpp). Other
// lengths are a convolution of a length that is a power of two (Bluestein 1970). An even number of real points is
// transformed as half as many complex ones (Cooley, Lewis and Welch 1970).
#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <optional>
#include <utility>

#include "base/per_thread.hpp"
#include "runtime/host/factorization.hpp"
#include "runtime/host/fourier_rows.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

constexpr std::int64_t greatest_factor = 31;  // above it Bluestein's way is the shorter one

bool has_small_factors(std::int64_t n) {
  for (std::int64_t factor = 2; factor <= greatest_factor; ++factor)
    while (n % factor == 0) n /= factor;
  return n == 1;
}

// Of a length that has small factors, not in place.
template <class T>
class SmoothTransform {
 public:
  explicit SmoothTransform(std::int64_t n) {
    if (n >= long_row)
      long_.emplace(n);
    else if (n > 1)
      stages_.emplace(n), one_ = PlanesOfRow<T>(n), other_ = PlanesOfRow<T>(n);
  }
  // Pairs of long rows alone: points of a transform, results of an inverse one.
  void run(FourierRow<const T> from, FourierRow<T> to, bool inverse) {
    if (long_) return long_->run(from, to, inverse);
    if (inverse) {
      std::swap(from.planes.real, from.planes.imag);
      std::swap(to.planes.real, to.planes.imag);
    }
    if (stages_) return stages_->run(from.planes, to.planes, one_.planes(), other_.planes());
    *to.planes.real = *from.planes.real;
    *to.planes.imag = *from.planes.imag;
  }

 private:
  std::optional<LongRow<T>> long_;
  std::optional<Stages<T>> stages_;
  PlanesOfRow<T> one_, other_;  // between stages
};

template <class T>
class Transform {
 public:
  Transform(std::int64_t n, bool inverse) : n_(n), inverse_(inverse), size_(convolved_size(n)), smooth_(size_) {
    if (size_ == n) return;
    chirp_ = PlanesOfRow<T>(n);
    filter_ = work_ = other_ = PlanesOfRow<T>(size_);
    PlanesOfRow<T> taps(size_);
    std::int64_t square = 0;  // j^2 modulo 2 n
    for (std::int64_t j = 0; j < n; ++j) {
      const double angle = std::numbers::pi * static_cast<double>(square) / static_cast<double>(n);
      const auto at = static_cast<std::size_t>(j), mirrored = static_cast<std::size_t>(j > 0 ? size_ - j : 0);
      chirp_.real[at] = taps.real[at] = taps.real[mirrored] = static_cast<T>(std::cos(angle));
      chirp_.imag[at] = static_cast<T>(inverse ? std::sin(angle) : -std::sin(angle));
      taps.imag[at] = taps.imag[mirrored] = -chirp_.imag[at];
      square = (square + 2 * j + 1) % (2 * n);
    }
    smooth_.run({taps.read()}, {filter_.planes()}, false);
  }

  // Points of a transform and results of an inverse one may be pairs.
  bool takes_pairs() const { return size_ == n_ && n_ >= long_row; }
  // Whether the tables are small, or the row is.
  bool is_kept() const { return n_ <= (size_ == n_ ? std::int64_t{1} << 22 : std::int64_t{1} << 16); }
  // Not in place.
  void run(FourierRow<const T> from, FourierRow<T> to) {
    if (size_ == n_) return smooth_.run(from, to, inverse_);
    multiply(from.planes, chirp_.read(), work_.planes(), n_, 1);
    std::fill(work_.real.begin() + n_, work_.real.end(), T(0));
    std::fill(work_.imag.begin() + n_, work_.imag.end(), T(0));
    smooth_.run({work_.read()}, {other_.planes()}, false);
    multiply(other_.read(), filter_.read(), other_.planes(), size_, 1);
    smooth_.run({other_.read()}, {work_.planes()}, true);
    multiply(work_.read(), chirp_.read(), to.planes, n_, T(1) / static_cast<T>(size_));
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
  SmoothTransform<T> smooth_;
  PlanesOfRow<T> chirp_, filter_, work_, other_;
};

using Kind = Factorization::Kind;

// Of a row of n points: complex ones, real ones to the first half of their spectrum, or such a half to real ones.
template <class T>
class RowTransform {
 public:
  RowTransform(Kind kind, std::int64_t n, bool inverse)
      : kind_(kind),
        n_(n),
        inverse_(kind == Kind::inverse_real_fourier || inverse),
        halved_(kind != Kind::fourier && n % 2 == 0),
        count_(halved_ ? n / 2 : n),
        transform_(count_, inverse_) {
    if (halved_) roots_.emplace(RootsOfUnity(n), 1, 2, count_);
  }

  bool is(Kind kind, std::int64_t n, bool inverse) const {
    return kind_ == kind && n_ == n && inverse_ == (kind == Kind::inverse_real_fourier || inverse);
  }
  bool is_kept() const { return transform_.is_kept(); }
  // Numbers of the memory that a run takes.
  std::int64_t scratch() const { return kind_ == Kind::fourier ? 0 : 2 * (count_ + fourier_columns); }

  void run(FourierPlanes<const T> from, FourierPlanes<T> to) { transform_.run({from}, {to}); }
  void to_spectrum(const T* points, FourierPlanes<T> to, FourierPlanes<T> scratch) {
    const FourierPlanes<T> half = part(scratch, 1);
    if (!halved_) {
      std::fill_n(scratch.imag, n_, T(0));
      transform_.run({{points, scratch.imag}}, {half});
      std::copy_n(half.real, n_ / 2 + 1, to.real);
      std::copy_n(half.imag, n_ / 2 + 1, to.imag);
      return;
    }
    if (transform_.takes_pairs()) {
      transform_.run({{}, points}, {half});
    } else {
      for_pairs([&](std::int64_t first, std::int64_t rows, std::int64_t columns) {
        fourier_passes<T>().gather_columns({{}, points + 2 * first}, fourier_columns, rows, columns,
                                           moved(scratch, first));
      });
      transform_.run({constant(scratch)}, {half});
    }
    to.real[0] = half.real[0] + half.imag[0];
    to.real[count_] = half.real[0] - half.imag[0];
    to.imag[0] = to.imag[count_] = 0;
    for_parts([&](std::int64_t begin, std::int64_t end) {
      fourier_passes<T>().spectrum_of_half(constant(half), count_, roots_->from(0), begin, end, to);
    });
  }
  void to_points(FourierPlanes<const T> from, T* points, FourierPlanes<T> scratch) {
    const FourierPlanes<T> half = part(scratch, 1);
    if (!halved_) {
      half.real[0] = from.real[0], half.imag[0] = 0;
      for (std::int64_t k = 1; k <= n_ / 2; ++k) {
        half.real[k] = half.real[n_ - k] = from.real[k];
        half.imag[k] = from.imag[k], half.imag[n_ - k] = -from.imag[k];
      }
      return transform_.run({constant(half)}, {{points, scratch.imag}});
    }
    half.real[0] = from.real[0] + from.real[count_];
    half.imag[0] = from.real[0] - from.real[count_];
    for_parts([&](std::int64_t begin, std::int64_t end) {
      fourier_passes<T>().half_of_spectrum(from, count_, roots_->from(0), begin, end, half);
    });
    if (transform_.takes_pairs()) return transform_.run({constant(half)}, {{}, points});
    transform_.run({constant(half)}, {scratch});
    for_pairs([&](std::int64_t first, std::int64_t rows, std::int64_t columns) {
      fourier_passes<T>().put_columns(constant(moved(scratch, first)), {{}, points + 2 * first}, fourier_columns, rows,
                                      columns);
    });
  }

 private:
  static FourierPlanes<const T> constant(FourierPlanes<T> planes) { return {planes.real, planes.imag}; }
  static FourierPlanes<T> moved(FourierPlanes<T> planes, std::int64_t by) {
    return {planes.real + by, planes.imag + by};
  }
  FourierPlanes<T> part(FourierPlanes<T> scratch, std::int64_t i) const {
    return moved(scratch, i * (count_ + fourier_columns));
  }
  // f(first, rows, columns) over the pairs as a matrix, and what does not fill its last row.
  template <class F>
  void for_pairs(F f) const {
    const std::int64_t rows = count_ / fourier_columns, whole = rows * fourier_columns;
    if (rows > 0) f(std::int64_t{0}, rows, fourier_columns);
    if (whole < count_) f(whole, std::int64_t{1}, count_ - whole);
  }
  // f(begin, end) over all numbers of a half but the first, on all threads where there are many.
  template <class F>
  void for_parts(F f) const {
    const auto body = [](void* context, std::int64_t begin, std::int64_t end) {
      (*static_cast<F*>(context))(begin, end);
    };
    parallel_for(1, count_, std::int64_t{1} << 14, body, &f);
  }

  Kind kind_;
  std::int64_t n_;
  bool inverse_, halved_;
  std::int64_t count_;  // of complex numbers that are transformed
  Transform<T> transform_;
  std::optional<RootTables<T>> roots_;
};

// The last few transforms of a thread: their tables take longer to make than one row to transform.
template <class T>
struct RecentTransforms {
  static constexpr std::size_t count = 4;
  std::unique_ptr<RowTransform<T>> transforms[count];
  std::size_t next = 0;

  RowTransform<T>* find(Kind kind, std::int64_t n, bool inverse) {
    for (const std::unique_ptr<RowTransform<T>>& each : transforms)
      if (each && each->is(kind, n, inverse)) return each.get();
    return nullptr;
  }
  void keep(std::unique_ptr<RowTransform<T>> made) {
    transforms[next] = std::move(made);
    next = (next + 1) % count;
  }
};

template <class T>
void transform_as(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  const std::int64_t n = call.sizes.columns, half = n / 2 + 1;
  if (n == 0 || begin >= end) return;
  const Kind kind = call.what.kind;
  RecentTransforms<T>& kept = per_thread<RecentTransforms<T>>();
  std::unique_ptr<RowTransform<T>> made;
  RowTransform<T>* transform = kept.find(kind, n, call.what.inverse);
  if (!transform) {
    made = std::make_unique<RowTransform<T>>(kind, n, call.what.inverse);
    transform = made.get();
    if (made->is_kept()) kept.keep(std::move(made));
  }
  const Scratch<T> scratch(transform->scratch());
  for (std::int64_t row = begin; row < end; ++row) {
    const auto at = [&](int buffer, std::int64_t size) { return static_cast<T*>(call.buffers[buffer]) + row * size; };
    switch (kind) {
      case Kind::real_fourier: transform->to_spectrum(at(0, n), {at(1, half), at(2, half)}, scratch.planes()); break;
      case Kind::inverse_real_fourier:
        transform->to_points({at(0, half), at(1, half)}, at(2, n), scratch.planes());
        break;
      default: transform->run({at(0, n), at(1, n)}, {at(2, n), at(3, n)});
    }
  }
}

}  // namespace

void transform_rows(const FactorizationCall& call, std::int64_t begin, std::int64_t end) {
  call.what.dtype == DType::f64 ? transform_as<double>(call, begin, end) : transform_as<float>(call, begin, end);
}

}  // namespace weft::runtime
