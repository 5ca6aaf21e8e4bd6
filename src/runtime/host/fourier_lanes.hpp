// Complex numbers on lanes, and how they get there: what the passes over rows of a Fourier transform share. For
// *.isa.cpp files alone.
#pragma once
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

}  // namespace

}  // namespace weft::runtime::WEFT_ISA_NAMESPACE
