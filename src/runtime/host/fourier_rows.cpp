#include "runtime/host/fourier_rows.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "runtime/host/isa.hpp"
#include "runtime/parallel.hpp"

namespace weft::runtime {

namespace {

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
FourierPlanes<T> moved(FourierPlanes<T> planes, std::int64_t by) {
  return {planes.real + by, planes.imag + by};
}
template <class T>
FourierRow<T> moved(FourierRow<T> row, std::int64_t by) {
  if (row.pairs) return {{}, row.pairs + 2 * by};
  return {moved(row.planes, by)};
}

// The greatest divisor that is not above the square root.
std::int64_t columns_of(std::int64_t n) {
  std::int64_t best = 1;
  for (std::int64_t each = 1; each * each <= n; ++each)
    if (n % each == 0) best = each;
  return best;
}

// f(thread's own memory of two rows, first of the columns, how many) over all columns.
template <class T, class F>
void for_columns(std::int64_t columns, std::int64_t rows, F f) {
  struct Context {
    std::int64_t columns, rows;
    F& f;
  } context{columns, rows, f};
  parallel_for(
      0, (columns + fourier_columns - 1) / fourier_columns, 1, num_threads(),
      [](void* given, Chunks& chunks) {
        const Context& it = *static_cast<const Context*>(given);
        const std::int64_t count = it.rows * fourier_columns;
        const Scratch<T> matrix(count), one(count), other(count);
        for_each_index(chunks, [&](std::int64_t i) {
          const std::int64_t first = i * fourier_columns;
          it.f(matrix.planes(), one.planes(), other.planes(), first, std::min(fourier_columns, it.columns - first));
        });
      },
      &context);
}

template <class T>
FourierPlanes<const T> constant(FourierPlanes<T> planes) {
  return {planes.real, planes.imag};
}

}  // namespace

template <>
const FourierPasses<float>& fourier_passes<float>() {
  static constexpr const FourierPasses<float>* all[] = {&baseline::fourier_passes_of_f32, &avx2::fourier_passes_of_f32,
                                                        &avx512::fourier_passes_of_f32};
  return *all[static_cast<std::size_t>(host_isa())];
}
template <>
const FourierPasses<double>& fourier_passes<double>() {
  static constexpr const FourierPasses<double>* all[] = {&baseline::fourier_passes_of_f64, &avx2::fourier_passes_of_f64,
                                                         &avx512::fourier_passes_of_f64};
  return *all[static_cast<std::size_t>(host_isa())];
}

RootsOfUnity::RootsOfUnity(std::int64_t n) : n_(n) {
  while (step_ * step_ < n) ++step_;
  for (std::int64_t j = 0; j <= n / step_; ++j) push(coarse_, j * step_);
  for (std::int64_t j = 0; j < step_; ++j) push(fine_, j);
}
void RootsOfUnity::push(PlanesOfRow<long double>& row, std::int64_t j) const {
  const long double angle =
      -2 * std::numbers::pi_v<long double> * static_cast<long double>(j) / static_cast<long double>(n_);
  row.push(std::cos(angle), std::sin(angle));
}

template <class T>
Stages<T>::Stages(std::int64_t n, std::int64_t rows) {
  const RootsOfUnity roots(n);
  std::int64_t stride = 1, length = n;
  while (length > 1) {
    // Lanes run over the stride, which the first stage makes long.
    std::int64_t radix = length % 8 == 0 && (stride == 1 || length == 8) ? 8 : length % 4 == 0 ? 4 : 2;
    while (length % radix != 0) ++radix;
    FourierStage stage{radix, length, stride * rows, static_cast<std::int64_t>(tables_.real.size()), 0};
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

template <class T>
void Stages<T>::run(FourierPlanes<const T> from, FourierPlanes<T> to, FourierPlanes<T> one,
                    FourierPlanes<T> other) const {
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const FourierPlanes<T> into = i + 1 == stages_.size() ? to : i % 2 == 0 ? one : other;
    run_stage<T>(stages_[i], tables_.read(), from, into);
    from = constant(into);
  }
}

template <class T>
LongRow<T>::LongRow(std::int64_t n)
    : columns_(columns_of(n)),
      rows_(n / columns_),
      down_(rows_, fourier_columns),
      across_(columns_, fourier_columns),
      roots_(RootsOfUnity(n), 0, columns_, rows_) {}

// With j = columns j1 + j2 and k = k1 + rows k2 number k is the sum over j2 of root (j2 k1) of n, times root (j2 k2) of
// the columns, times the transform k1 of column j2.
template <class T>
void LongRow<T>::run(FourierRow<const T> from, FourierRow<T> to, bool inverse) const {
  if (inverse) std::swap(from.planes.real, from.planes.imag);
  const FourierPasses<T>& passes = fourier_passes<T>();
  const Scratch<T> turned(columns_ * rows_);
  for_columns<T>(columns_, rows_,
                 [&](FourierPlanes<T> matrix, FourierPlanes<T> one, FourierPlanes<T> other, std::int64_t first,
                     std::int64_t count) {
                   passes.gather_columns(moved(from, first), columns_, rows_, count, matrix);
                   down_.run(constant(matrix), matrix, one, other);
                   passes.turn_columns(constant(matrix), rows_, count, roots_.from(first), roots_.coarse(),
                                       moved(turned.planes(), first * rows_));
                 });
  for_columns<T>(rows_, columns_,
                 [&](FourierPlanes<T> matrix, FourierPlanes<T> one, FourierPlanes<T> other, std::int64_t first,
                     std::int64_t count) {
                   passes.gather_columns({moved(turned.read(), first)}, rows_, columns_, count, matrix);
                   across_.run(constant(matrix), matrix, one, other);
                   if (inverse) std::swap(matrix.real, matrix.imag);
                   passes.put_columns(constant(matrix), moved(to, first), rows_, columns_, count);
                 });
}

template class Stages<float>;
template class Stages<double>;
template class LongRow<float>;
template class LongRow<double>;

}  // namespace weft::runtime
