// How far a tensor is from what it should be, as verify() and minimize() count it.
#pragma once
#include <cstddef>
#include <optional>

#include "weft/tensor.hpp"

namespace weft::detail {

// The element that is furthest away. `relative`: by the greatest finite element of what is expected. `allowed`:
// roundings in another order may make so much of it: 1e-4 of f32, 1e-10 of f64, 1e-2 of f16, 5e-2 of bf16, nothing of
// others.
struct Distance {
  std::size_t element;
  double found, expected, relative;
  bool allowed;
};
// Of tensors of one dtype and shape; empty where all elements are equal. NaN equals NaN.
std::optional<Distance> distance_of(const Tensor& found, const Tensor& expected);

}  // namespace weft::detail
