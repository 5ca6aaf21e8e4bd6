#include <type_traits>

#include "runtime/host/fourier_stage.hpp"
#include "weft/detail/lanes.hpp"

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

using namespace weft::lanes;

#define WEFT_FOURIER_INLINE __attribute__((always_inline)) inline

using Int = std::int64_t;

// A number in the type of the elements, on all lanes of a vector.
template <class V>
WEFT_FOURIER_INLINE V of(double number) {
  if constexpr (std::is_floating_point_v<V>)
    return static_cast<V>(number);
  else
    return V(static_cast<typename V::element>(number));
}
template <class T>
struct Complex {
  T real, imag;
};
template <class T>
WEFT_FOURIER_INLINE Complex<T> operator+(Complex<T> a, Complex<T> b) {
  return {a.real + b.real, a.imag + b.imag};
}
template <class T>
WEFT_FOURIER_INLINE Complex<T> operator-(Complex<T> a, Complex<T> b) {
  return {a.real - b.real, a.imag - b.imag};
}
template <class T>
WEFT_FOURIER_INLINE Complex<T> operator*(Complex<T> a, Complex<T> b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}
template <class T>
WEFT_FOURIER_INLINE Complex<T> scaled(Complex<T> a, double by) {
  return {a.real * of<T>(by), a.imag * of<T>(by)};
}
// Times -i.
template <class T>
WEFT_FOURIER_INLINE Complex<T> turned(Complex<T> a) {
  return {a.imag, -a.real};
}

// The transforms of so few numbers, in place.
template <class T>
WEFT_FOURIER_INLINE void transform(Complex<T> (&x)[2]) {
  const Complex<T> sum = x[0] + x[1];
  x[1] = x[0] - x[1];
  x[0] = sum;
}
template <class T>
WEFT_FOURIER_INLINE void transform(Complex<T> (&x)[3]) {
  constexpr double sine = 0.86602540378443864676;  // sin(pi / 3)
  const Complex<T> sum = x[1] + x[2], middle = x[0] - scaled(sum, 0.5), side = turned(scaled(x[1] - x[2], sine));
  x[0] = x[0] + sum;
  x[1] = middle + side;
  x[2] = middle - side;
}
template <class T>
WEFT_FOURIER_INLINE void transform(Complex<T> (&x)[4]) {
  const Complex<T> a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = turned(x[1] - x[3]);
  x[0] = a + c;
  x[1] = b + d;
  x[2] = a - c;
  x[3] = b - d;
}
template <class T>
WEFT_FOURIER_INLINE void transform(Complex<T> (&x)[5]) {
  constexpr double c1 = 0.30901699437494742410, c2 = -0.80901699437494742410, s1 = 0.95105651629515357212,
                   s2 = 0.58778525229247312917;  // cos and sin of 2 pi / 5 and 4 pi / 5
  const Complex<T> a = x[1] + x[4], b = x[2] + x[3], c = x[1] - x[4], d = x[2] - x[3];
  const Complex<T> first = x[0] + scaled(a, c1) + scaled(b, c2), second = x[0] + scaled(a, c2) + scaled(b, c1),
                   first_side = turned(scaled(c, s1) + scaled(d, s2)),
                   second_side = turned(scaled(c, s2) - scaled(d, s1));
  x[0] = x[0] + a + b;
  x[1] = first + first_side;
  x[2] = second + second_side;
  x[3] = second - second_side;
  x[4] = first - first_side;
}
template <class T>
WEFT_FOURIER_INLINE void transform(Complex<T> (&x)[8]) {
  const T half = of<T>(0.70710678118654752440);  // sqrt(1 / 2)
  Complex<T> even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
  transform(even);
  transform(odd);
  const Complex<T> side[4] = {odd[0],
                              {(odd[1].real + odd[1].imag) * half, (odd[1].imag - odd[1].real) * half},
                              turned(odd[2]),
                              {(odd[3].imag - odd[3].real) * half, -(odd[3].real + odd[3].imag) * half}};
  for (int k = 0; k < 4; ++k) {
    x[k] = even[k] + side[k];
    x[k + 4] = even[k] - side[k];
  }
}

template <class V, class T>
WEFT_FOURIER_INLINE V taken(const T* p) {
  if constexpr (std::is_same_v<V, T>)
    return *p;
  else
    return load<T, sizeof(V) / sizeof(T)>(p);
}
template <class T>
WEFT_FOURIER_INLINE void put(T* p, T x) {
  *p = x;
}
template <class T, int N>
WEFT_FOURIER_INLINE void put(T* p, vec<T, N> x) {
  store(p, x);
}

template <class V, int R, class T>
WEFT_FOURIER_INLINE void take(Complex<V> (&x)[R], FourierPlanes<const T> from, Int at, Int step) {
  for (int j = 0; j < R; ++j) x[j] = {taken<V>(from.real + at + j * step), taken<V>(from.imag + at + j * step)};
}

// As many neighbours of the stride as V has lanes.
template <class V, int R, class T>
WEFT_FOURIER_INLINE void turn_and_put(const T (&turn)[2][R], FourierPlanes<const T> from, Int step, FourierPlanes<T> to,
                                      Int stride) {
  Complex<V> x[R];
  take(x, from, 0, step);
  transform(x);
  for (int k = 1; k < R; ++k) x[k] = x[k] * Complex<V>{V(turn[0][k]), V(turn[1][k])};
  for (int k = 0; k < R; ++k) {
    put(to.real + k * stride, x[k].real);
    put(to.imag + k * stride, x[k].imag);
  }
}

// a0 b0 a1 b1 ...
template <int Begin, class T, int N, int... I>
WEFT_FOURIER_INLINE vec<T, N> half_interleaved(vec<T, N> a, vec<T, N> b, sequence<I...>) {
  return vec<T, N>(typename vec<T, N>::native(__builtin_shufflevector(a.v, b.v, ((I % 2 ? N : 0) + Begin + I / 2)...)));
}
template <class T, int N>
WEFT_FOURIER_INLINE vec<T, 2 * N> interleaved(vec<T, N> a, vec<T, N> b) {
  if constexpr (!vec<T, N>::is_native)
    return join(interleaved(a.lo, b.lo), interleaved(a.hi, b.hi));
  else
    return join(half_interleaved<0>(a, b, typename make_sequence<N>::type()),
                half_interleaved<N / 2>(a, b, typename make_sequence<N>::type()));
}
// The numbers `First`, First + Step, ... of x, side by side.
template <int First, int Step, class T, int N, int R>
WEFT_FOURIER_INLINE auto side_by_side(const vec<T, N> (&x)[R]) {
  if constexpr (Step == R)
    return x[First];
  else
    return interleaved(side_by_side<First, 2 * Step>(x), side_by_side<First + Step, 2 * Step>(x));
}
template <int R, class V, class T>
WEFT_FOURIER_INLINE void put_side_by_side(T* p, const V (&x)[R]) {
  if constexpr (std::is_same_v<V, T>) {
    for (int k = 0; k < R; ++k) p[k] = x[k];
  } else if constexpr ((R & (R - 1)) == 0) {
    store(p, side_by_side<0, 1>(x));
  } else {
    constexpr int lanes = sizeof(V) / sizeof(T);
    T each[R][lanes];
    for (int k = 0; k < R; ++k) store(each[k], x[k]);
    for (int lane = 0; lane < lanes; ++lane)
      for (int k = 0; k < R; ++k) p[lane * R + k] = each[k][lane];
  }
}
// As many neighbours of the length, of stride 1, as V has lanes.
template <class V, int R, class T>
WEFT_FOURIER_INLINE void first_stage(FourierPlanes<const T> turn, FourierPlanes<const T> from, Int part,
                                     FourierPlanes<T> to) {
  Complex<V> x[R];
  take(x, from, 0, part);
  transform(x);
  V real[R], imag[R];
  for (int k = 0; k < R; ++k) {
    if (k > 0) x[k] = x[k] * Complex<V>{taken<V>(turn.real + (k - 1) * part), taken<V>(turn.imag + (k - 1) * part)};
    real[k] = x[k].real;
    imag[k] = x[k].imag;
  }
  put_side_by_side(to.real, real);
  put_side_by_side(to.imag, imag);
}

template <class T>
WEFT_FOURIER_INLINE FourierPlanes<T> moved(FourierPlanes<T> planes, Int by) {
  return {planes.real + by, planes.imag + by};
}

// body(vector of T, place) over [0, count), in the widest vectors that there are.
template <class T, class Body>
WEFT_FOURIER_INLINE void for_vectors(Int count, Body body) {
  constexpr int widest = vec<T, 16>::is_native ? 16 : vec<T, 8>::is_native ? 8 : vec<T, 4>::is_native ? 4 : 2;
  Int at = 0;
  for (; at + widest <= count; at += widest) body(vec<T, widest>(), at);
  if constexpr (widest > 8)
    if (at + 8 <= count) body(vec<T, 8>(), at), at += 8;
  if constexpr (widest > 4)
    if (at + 4 <= count) body(vec<T, 4>(), at), at += 4;
  for (; at < count; ++at) body(T(), at);
}

template <int R, class T>
void stage_of(const FourierStage& stage, FourierPlanes<const T> tables, FourierPlanes<const T> from,
              FourierPlanes<T> to) {
  const Int part = stage.length / R, stride = stage.stride;
  const FourierPlanes<const T> turns = moved(tables, stage.twiddles);
  if (stride == 1)
    return for_vectors<T>(
        part, [&]<class V>(V, Int p) __attribute__((always_inline)) {
          first_stage<V, R>(moved(turns, p), moved(from, p), part, moved(to, R * p));
        });
  for (Int p = 0; p < part; ++p) {
    T turn[2][R] = {};
    for (int k = 1; k < R; ++k) {
      turn[0][k] = turns.real[(k - 1) * part + p];
      turn[1][k] = turns.imag[(k - 1) * part + p];
    }
    for_vectors<T>(
        stride, [&]<class V>(V, Int q) __attribute__((always_inline)) {
          turn_and_put<V>(turn, moved(from, p * stride + q), part * stride, moved(to, R * p * stride + q), stride);
        });
  }
}

constexpr Int greatest_radix = 31;

// Of another radix, at most the greatest, by its definition.
template <class T>
void stage_of_any(const FourierStage& stage, FourierPlanes<const T> tables, FourierPlanes<const T> from,
                  FourierPlanes<T> to) {
  const Int radix = stage.radix, part = stage.length / radix, stride = stage.stride, step = part * stride;
  const FourierPlanes<const T> roots = moved(tables, stage.roots), turns = moved(tables, stage.twiddles);
  for (Int p = 0; p < part; ++p)
    for_vectors<T>(
        stride, [&]<class V>(V, Int q) __attribute__((always_inline)) {
          Complex<V> x[greatest_radix];
          for (Int j = 0; j < radix; ++j)
            x[j] = {taken<V>(from.real + p * stride + q + j * step), taken<V>(from.imag + p * stride + q + j * step)};
          for (Int k = 0; k < radix; ++k) {
            Complex<V> sum = x[0];
            for (Int j = 1, root = k; j < radix; ++j, root = root + k < radix ? root + k : root + k - radix)
              sum = sum + x[j] * Complex<V>{V(roots.real[root]), V(roots.imag[root])};
            if (k > 0) {
              const Int turn = (k - 1) * part + p;
              sum = sum * Complex<V>{V(turns.real[turn]), V(turns.imag[turn])};
            }
            put(to.real + (radix * p + k) * stride + q, sum.real);
            put(to.imag + (radix * p + k) * stride + q, sum.imag);
          }
        });
}

template <class T>
void stage_as(const FourierStage& stage, FourierPlanes<const T> tables, FourierPlanes<const T> from,
              FourierPlanes<T> to) {
  switch (stage.radix) {
    case 2: return stage_of<2>(stage, tables, from, to);
    case 3: return stage_of<3>(stage, tables, from, to);
    case 4: return stage_of<4>(stage, tables, from, to);
    case 5: return stage_of<5>(stage, tables, from, to);
    case 8: return stage_of<8>(stage, tables, from, to);
    default: return stage_of_any(stage, tables, from, to);
  }
}

}  // namespace

void fourier_stage(const FourierStage& stage, FourierPlanes<const float> tables, FourierPlanes<const float> from,
                   FourierPlanes<float> to) {
  stage_as(stage, tables, from, to);
}
void fourier_stage(const FourierStage& stage, FourierPlanes<const double> tables, FourierPlanes<const double> from,
                   FourierPlanes<double> to) {
  stage_as(stage, tables, from, to);
}

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
