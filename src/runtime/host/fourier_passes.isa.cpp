#include "runtime/host/fourier_passes.hpp"

#include <algorithm>

#include "runtime/host/fourier_lanes.hpp"

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

template <class T>
inline constexpr int widest = vec<T, 16>::is_native  ? 16
                              : vec<T, 8>::is_native ? 8
                              : vec<T, 4>::is_native ? 4
                                                     : 2;

// Each second of the numbers of a and b, from the first or from the second.
template <int First, class T, int N, int... I>
WEFT_FOURIER_INLINE vec<T, N> each_second(vec<T, N> a, vec<T, N> b, sequence<I...>) {
  return vec<T, N>(typename vec<T, N>::native(__builtin_shufflevector(a.v, b.v, (2 * I + First)...)));
}
template <class T>
WEFT_FOURIER_INLINE Complex<T> pair_at(const T* p, T) {
  return {p[0], p[1]};
}
template <class T, int N>
WEFT_FOURIER_INLINE Complex<vec<T, N>> pair_at(const T* p, vec<T, N>) {
  const auto a = load<T, N>(p), b = load<T, N>(p + N);
  return {each_second<0>(a, b, typename make_sequence<N>::type()),
          each_second<1>(a, b, typename make_sequence<N>::type())};
}
template <class T>
WEFT_FOURIER_INLINE void put_pair(T* p, Complex<T> x) {
  p[0] = x.real, p[1] = x.imag;
}
template <class T, int N>
WEFT_FOURIER_INLINE void put_pair(T* p, Complex<vec<T, N>> x) {
  store(p, interleaved(x.real, x.imag));
}

template <class T>
WEFT_FOURIER_INLINE T backwards(T x) {
  return x;
}
template <class T, int N, int... I>
WEFT_FOURIER_INLINE vec<T, N> backwards(vec<T, N> x, sequence<I...>) {
  return vec<T, N>(typename vec<T, N>::native(__builtin_shufflevector(x.v, x.v, (N - 1 - I)...)));
}
template <class T, int N>
WEFT_FOURIER_INLINE vec<T, N> backwards(vec<T, N> x) {
  return backwards(x, typename make_sequence<N>::type());
}

template <class V, class T>
WEFT_FOURIER_INLINE Complex<V> complex_at(FourierPlanes<const T> planes, Int at) {
  return {taken<V>(planes.real + at), taken<V>(planes.imag + at)};
}
template <class V, class T>
WEFT_FOURIER_INLINE void put_complex(FourierPlanes<T> planes, Int at, Complex<V> x) {
  put(planes.real + at, x.real);
  put(planes.imag + at, x.imag);
}

template <class T>
void gather_columns(FourierRow<const T> from, Int distance, Int rows, Int columns, FourierPlanes<T> to) {
  for (Int row = 0; row < rows; ++row, to = moved(to, fourier_columns)) {
    const Int at = row * distance;
    for_vectors<T>(
        columns, [&]<class V>(V kind, Int q) __attribute__((always_inline)) {
          put_complex(to, q,
                      from.pairs ? pair_at(from.pairs + 2 * (at + q), kind) : complex_at<V>(from.planes, at + q));
        });
    for (Int q = columns; q < fourier_columns; ++q) put_complex(to, q, Complex<T>{0, 0});
  }
}

template <class T>
void put_columns(FourierPlanes<const T> from, FourierRow<T> to, Int distance, Int rows, Int columns) {
  for (Int row = 0; row < rows; ++row, from = moved(from, fourier_columns)) {
    const Int at = row * distance;
    for_vectors<T>(
        columns, [&]<class V>(V, Int q) __attribute__((always_inline)) {
          const Complex<V> x = complex_at<V>(from, q);
          to.pairs ? put_pair(to.pairs + 2 * (at + q), x) : put_complex(to.planes, at + q, x);
        });
  }
}

template <class T>
void turn_columns(FourierPlanes<const T> from, Int rows, Int columns, FourierRoots<T> roots, Int coarse,
                  FourierPlanes<T> to) {
  constexpr int lanes = widest<T>;
  static_assert(fine_roots % lanes == 0 && fourier_columns % lanes == 0);
  const auto turn = [&]<class V>(Complex<V> x, Int row, Int column) __attribute__((always_inline)) {
    const Int c = column * coarse + row / fine_roots;
    const Complex<V> fine = complex_at<V>(roots.fine, column * fine_roots + row % fine_roots);
    put_complex(to, column * rows + row, x * (fine * Complex<V>{V(roots.coarse.real[c]), V(roots.coarse.imag[c])}));
  };
  Int row = 0;
  for (; row + lanes <= rows; row += lanes)
    for (Int first = 0; first < columns; first += lanes) {
      using V = vec<T, lanes>;
      T tile[2][lanes * lanes];
      V real[lanes], imag[lanes];
      for (int k = 0; k < lanes; ++k) {
        const Complex<V> x = complex_at<V>(from, (row + k) * fourier_columns + first);
        real[k] = x.real, imag[k] = x.imag;
      }
      put_side_by_side(tile[0], real);
      put_side_by_side(tile[1], imag);
      const FourierPlanes<const T> turned = {tile[0], tile[1]};
      for (Int c = 0; c < std::min<Int>(lanes, columns - first); ++c)
        turn(complex_at<V>(turned, c * lanes), row, first + c);
    }
  for (; row < rows; ++row)
    for (Int c = 0; c < columns; ++c) turn(complex_at<T>(from, row * fourier_columns + c), row, c);
}

// body(vector, place, its root) over [begin, end).
template <class T, class Body>
WEFT_FOURIER_INLINE void for_roots(Int begin, Int end, FourierRoots<T> roots, Body body) {
  while (begin < end) {
    const Int c = begin / fine_roots, stop = std::min(end, (c + 1) * fine_roots), first = begin;
    for_vectors<T>(
        stop - first, [&]<class V>(V kind, Int at) __attribute__((always_inline)) {
          const Complex<V> fine = complex_at<V>(roots.fine, (first + at) % fine_roots);
          body(kind, first + at, fine * Complex<V>{V(roots.coarse.real[c]), V(roots.coarse.imag[c])});
        });
    begin = stop;
  }
}

// The conjugates of those before `at`, which count backwards.
template <class V, class T>
WEFT_FOURIER_INLINE Complex<V> mirrored(FourierPlanes<const T> planes, Int at) {
  const Complex<V> x = complex_at<V>(planes, at + 1 - static_cast<Int>(sizeof(V) / sizeof(T)));
  return {backwards(x.real), -backwards(x.imag)};
}

// With x the pairs a + i b of even and odd points, Z = A + i B; A and B are spectra of real points.
template <class T>
void spectrum_of_half(FourierPlanes<const T> half, Int count, FourierRoots<T> roots, Int begin, Int end,
                      FourierPlanes<T> to) {
  for_roots<T>(
      begin, end, roots, [&]<class V>(V, Int k, Complex<V> root) __attribute__((always_inline)) {
        const Complex<V> z = complex_at<V>(half, k), other = mirrored<V>(half, count - k);
        put_complex(to, k, scaled(z + other, 0.5) + root * turned(scaled(z - other, 0.5)));
      });
}
template <class T>
void half_of_spectrum(FourierPlanes<const T> spectrum, Int count, FourierRoots<T> roots, Int begin, Int end,
                      FourierPlanes<T> to) {
  for_roots<T>(
      begin, end, roots, [&]<class V>(V, Int k, Complex<V> root) __attribute__((always_inline)) {
        const Complex<V> x = complex_at<V>(spectrum, k), other = mirrored<V>(spectrum, count - k);
        const Complex<V> even = x + other, odd = (x - other) * Complex<V>{root.real, -root.imag};
        put_complex(to, k, even - turned(odd));
      });
}

template <class T>
inline constexpr FourierPasses<T> passes = {gather_columns<T>, put_columns<T>, turn_columns<T>, spectrum_of_half<T>,
                                            half_of_spectrum<T>};

}  // namespace

extern const FourierPasses<float> fourier_passes_of_f32;
extern const FourierPasses<double> fourier_passes_of_f64;
constinit const FourierPasses<float> fourier_passes_of_f32 = passes<float>;
constinit const FourierPasses<double> fourier_passes_of_f64 = passes<double>;

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
