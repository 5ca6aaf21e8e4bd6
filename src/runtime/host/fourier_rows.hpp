// Fourier transforms of rows whose length has small prime factors. In: a length. Out: an object that any number of
// threads may use, of tables alone; memory for what lies between its passes is the caller's, or taken for the call.
//   Stages   n log n by stages (fourier_stage.hpp), also of several rows whose numbers lie side by side
//   LongRow  a row as a matrix of about as many rows as columns: its columns are transformed, turned and transposed,
//   and
//            the columns of that again (Bailey 1990), so that stages stay in the cache, and threads share the columns
#pragma once
#include <vector>

#include "base/storage.hpp"
#include "runtime/host/fourier_passes.hpp"

namespace weft::runtime {

template <class T>
struct PlanesOfRow {
  std::vector<T> real, imag;

  explicit PlanesOfRow(std::int64_t size = 0) : real(static_cast<std::size_t>(size)), imag(real.size()) {}
  FourierPlanes<T> planes() { return {real.data(), imag.data()}; }
  FourierPlanes<const T> read() const { return {real.data(), imag.data()}; }
  template <class U>
  void push(U real_part, U imag_part) {
    real.push_back(static_cast<T>(real_part));
    imag.push_back(static_cast<T>(imag_part));
  }
};

// Planes in memory that is kept for the next user: nothing is written to it first.
template <class T>
class Scratch {
 public:
  explicit Scratch(std::int64_t count)
      : storage_(allocate({}, 2 * static_cast<std::size_t>(count) * sizeof(T))),
        planes_{static_cast<T*>(storage_->data), static_cast<T*>(storage_->data) + count} {}
  Scratch(const Scratch&) = delete;
  ~Scratch() { release(storage_); }
  FourierPlanes<T> planes() const { return planes_; }
  FourierPlanes<const T> read() const { return {planes_.real, planes_.imag}; }

 private:
  Storage* storage_;
  FourierPlanes<T> planes_;
};

// exp(-2 pi i j / n), as the product of one of few coarse steps and one of few fine ones.
class RootsOfUnity {
 public:
  explicit RootsOfUnity(std::int64_t n);
  template <class T>
  void push_to(PlanesOfRow<T>& row, std::int64_t j) const {
    j %= n_;
    const auto a = static_cast<std::size_t>(j / step_), b = static_cast<std::size_t>(j % step_);
    row.push(coarse_.real[a] * fine_.real[b] - coarse_.imag[a] * fine_.imag[b],
             coarse_.real[a] * fine_.imag[b] + coarse_.imag[a] * fine_.real[b]);
  }

 private:
  void push(PlanesOfRow<long double>& row, std::int64_t j) const;

  std::int64_t n_, step_ = 1;
  PlanesOfRow<long double> coarse_, fine_;
};

// Roots j k of n, of k from 0 to `count` - 1, for each of some j.
template <class T>
class RootTables {
 public:
  RootTables(const RootsOfUnity& roots, std::int64_t first, std::int64_t last, std::int64_t count)
      : coarse_((count + fine_roots - 1) / fine_roots) {
    for (std::int64_t j = first; j < last; ++j) {
      for (std::int64_t k = 0; k < fine_roots; ++k) roots.push_to(fine_table_, j * k);
      for (std::int64_t k = 0; k < coarse_; ++k) roots.push_to(coarse_table_, j * k * fine_roots);
    }
  }
  std::int64_t coarse() const { return coarse_; }
  // Those from the i-th of the j on.
  FourierRoots<T> from(std::int64_t i) const {
    const FourierPlanes<const T> fine = fine_table_.read(), coarse = coarse_table_.read();
    return {{fine.real + i * fine_roots, fine.imag + i * fine_roots},
            {coarse.real + i * coarse_, coarse.imag + i * coarse_}};
  }

 private:
  std::int64_t coarse_;
  PlanesOfRow<T> fine_table_, coarse_table_;
};

template <class T>
class Stages {
 public:
  // Of `rows` rows, number by number.
  explicit Stages(std::int64_t n, std::int64_t rows = 1);
  // Not in place where there is one stage; of at least 2 numbers. An inverse transform, which is not scaled, is that
  // of the planes exchanged.
  void run(FourierPlanes<const T> from, FourierPlanes<T> to, FourierPlanes<T> one, FourierPlanes<T> other) const;

 private:
  std::vector<FourierStage> stages_;
  PlanesOfRow<T> tables_;  // roots of unity
};

template <class T>
class LongRow {
 public:
  explicit LongRow(std::int64_t n);
  // Pairs are points of a transform or results of an inverse one, which is not scaled.
  void run(FourierRow<const T> from, FourierRow<T> to, bool inverse) const;

 private:
  std::int64_t columns_, rows_;
  Stages<T> down_, across_;  // of a column, and of a row
  RootTables<T> roots_;      // of each column
};

// Lengths from here on are those of long rows: a shorter one fits into the cache of a core.
inline constexpr std::int64_t long_row = 1 << 17;

template <class T>
const FourierPasses<T>& fourier_passes();

}  // namespace weft::runtime
