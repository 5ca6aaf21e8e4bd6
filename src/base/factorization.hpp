// What a factorization, a solution or a transform of matrices is, as plain data: what the graph's primitives and those
// who compute them share.
#pragma once
#include <cstdint>

#include "weft/dtype.hpp"

namespace weft {

struct Factorization {
  enum class Kind : std::uint8_t {
    cholesky,
    triangular_solve,
    lu,
    ldl,
    qr,
    eigh,
    svd,
    eig,
    fourier,
    real_fourier,
    inverse_real_fourier
  };
  Kind kind = Kind::cholesky;
  DType dtype = DType::f32;                              // f32 or f64
  bool upper = false, transposed = false, unit = false;  // triangular_solve
  bool vectors = true, full = false;                     // eigh, svd and eig
  bool inverse = false;                                  // fourier

  bool is_transform() const { return kind >= Kind::fourier; }
};

// Matrices of rows x columns, and right sides of rows x sides. Of a transform the rows are part of the batch, and
// columns are the points.
template <class Int>
struct FactorizationSizes {
  Int batch = 1, rows = 1, columns = 1, sides = 1;
};

}  // namespace weft
