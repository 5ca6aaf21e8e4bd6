// Passes over rows beside the stages of a Fourier transform, compiled once an ISA: between pairs of numbers and planes,
// between a real row and a complex one of half its length, and what a long row is cut into. Every ISA gives the same
// bits.
#pragma once
#include "runtime/host/fourier_stage.hpp"

namespace weft::runtime {

// Columns of a long row, seen as a matrix, that are transformed at once.
inline constexpr std::int64_t fourier_columns = 16;

// exp(-2 pi i k / n) for k from 0, as coarse[k / fine_roots] * fine[k % fine_roots].
inline constexpr std::int64_t fine_roots = 64;
template <class T>
struct FourierRoots {
  FourierPlanes<const T> fine, coarse;
};

// Complex numbers of a row: two planes, or pairs, real and imaginary, side by side.
template <class T>
struct FourierRow {
  FourierPlanes<T> planes = {};
  T* pairs = nullptr;  // in the place of planes
};

template <class T>
struct FourierPasses {
  // A matrix [rows, columns] of a row, whose rows lie `distance` numbers apart, to [rows, fourier_columns], with zeros
  // where there are no columns; and back.
  void (*gather_columns)(FourierRow<const T> from, std::int64_t distance, std::int64_t rows, std::int64_t columns,
                         FourierPlanes<T> to);
  void (*put_columns)(FourierPlanes<const T> from, FourierRow<T> to, std::int64_t distance, std::int64_t rows,
                      std::int64_t columns);
  // [rows, fourier_columns] transposed to [columns, rows], each times its root: that of row k in column c is root k of
  // the c-th of `roots`, whose fine ones are `fine_roots` apart and whose coarse ones are `coarse` apart.
  void (*turn_columns)(FourierPlanes<const T> from, std::int64_t rows, std::int64_t columns, FourierRoots<T> roots,
                       std::int64_t coarse, FourierPlanes<T> to);
  // `half`: the transform of n / 2 complex numbers, which are the n real ones as pairs. To the transform of these, its
  // numbers [begin, end) of 1 to n / 2 - 1. `roots` are those of n.
  void (*spectrum_of_half)(FourierPlanes<const T> half, std::int64_t count, FourierRoots<T> roots, std::int64_t begin,
                           std::int64_t end, FourierPlanes<T> to);
  // The inverse of it, times 2: what the inverse transform takes.
  void (*half_of_spectrum)(FourierPlanes<const T> spectrum, std::int64_t count, FourierRoots<T> roots,
                           std::int64_t begin, std::int64_t end, FourierPlanes<T> to);
};

WEFT_FOR_EACH_ISA(extern const FourierPasses<float> fourier_passes_of_f32;
                  extern const FourierPasses<double> fourier_passes_of_f64;)

}  // namespace weft::runtime
