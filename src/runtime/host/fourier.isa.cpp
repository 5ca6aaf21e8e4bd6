#include "runtime/host/fourier_lanes.hpp"

namespace weft::runtime::WEFT_ISA_NAMESPACE {

namespace {

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
