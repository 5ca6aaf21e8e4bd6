// How far a tensor is from what it should be, as verify() and minimize() count it.
#pragma once
#include <cstddef>
#include <optional>
#include <vector>

#include "weft/tensor.hpp"

namespace weft::detail {

// How far roundings may move a tensor: how far the reference interpreter's value moved in a few runs, each of which
// moved every inexact result by up to 3 roundings (trace/replay.hpp).
struct RoundingSpread {
  double greatest = 0;          // of all elements that stay finite
  std::vector<bool> undecided;  // by element: it is not finite in one run and is in another, or is another integer
  // Tensors of one dtype and shape.
  void add(const Tensor& exact, const Tensor& moved);
};
inline constexpr unsigned rounding_runs = 4;

// The element that is furthest away. `relative`: by the greatest finite element of what is expected. `allowed`:
// roundings in another order may make so much of it: 1e-4 of f32, 1e-10 of f64, 1e-2 of f16, 5e-2 of bf16, nothing of
// others; where a spread is given, 8 times that beside it, and anything of what is undecided.
struct Distance {
  std::size_t element;
  double found, expected, relative;
  bool allowed;
};
// Of tensors of one dtype and shape; empty where all elements are equal. NaN equals NaN.
std::optional<Distance> distance_of(const Tensor& found, const Tensor& expected,
                                    const RoundingSpread* spread = nullptr);

}  // namespace weft::detail
