// A matrix of the reference's factorizations, in float64.
#pragma once
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "interpret/reference.hpp"

namespace weft::reference {

inline constexpr double nan = std::numeric_limits<double>::quiet_NaN();

struct Matrix {
  std::size_t rows = 0, columns = 0;
  std::vector<double> elements;
  Matrix(std::size_t rows, std::size_t columns) : rows(rows), columns(columns), elements(rows * columns) {}
  double& operator()(std::size_t i, std::size_t j) { return elements[i * columns + j]; }
  double operator()(std::size_t i, std::size_t j) const { return elements[i * columns + j]; }
};

inline std::size_t size_at(const Literal& value, int from_end) {
  const Shape& shape = value.type.shape;
  return static_cast<std::size_t>(shape[shape.rank() - from_end].constant());
}
inline Matrix read(const Literal& value, std::size_t i) {
  Matrix result(size_at(value, 2), size_at(value, 1));
  const std::size_t count = result.elements.size();
  for (std::size_t k = 0; k < count; ++k) result.elements[k] = value.reals[i * count + k];
  return result;
}
inline void write(Literal& value, std::size_t i, const std::vector<double>& elements) {
  std::copy(elements.begin(), elements.end(), value.reals.begin() + static_cast<std::ptrdiff_t>(i * elements.size()));
}

inline Matrix identity(std::size_t n) {
  Matrix result(n, n);
  for (std::size_t i = 0; i < n; ++i) result(i, i) = 1;
  return result;
}
inline Matrix transposed(const Matrix& a) {
  Matrix result(a.columns, a.rows);
  for (std::size_t i = 0; i < a.rows; ++i)
    for (std::size_t j = 0; j < a.columns; ++j) result(j, i) = a(i, j);
  return result;
}

inline Matrix corner(const Matrix& a, std::size_t rows, std::size_t columns) {
  Matrix result(rows, columns);
  for (std::size_t i = 0; i < rows; ++i)
    for (std::size_t j = 0; j < columns; ++j) result(i, j) = a(i, j);
  return result;
}

inline bool is_finite(const Matrix& a) {
  return std::ranges::all_of(a.elements, [](double x) { return std::isfinite(x); });
}

}  // namespace weft::reference
