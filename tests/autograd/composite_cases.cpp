// Composites whose derivatives are those of their primitives, in the ways in which these are put together there.
#include "tests/autograd/cases.hpp"
#include "weft/indexing.hpp"
#include "weft/shapes.hpp"
#include "weft/statistics.hpp"

namespace weft::test {

std::vector<Case> composite_cases() {
  const Literal m = numbers(Shape::of(3, 4), -2, 2, 1), v = numbers(Shape::of(5), -2, 2, 2);
  const Literal rows = integers(Shape::of(2, 2), {2, 0, 2, 2});
  using X = const std::vector<Tensor>&;
  return {
      {"products that meet",
       {m, numbers(Shape::of(3, 4), -2, 2, 6), rows},
       [](X x) {
         const Tensor product = index_reduce(x[0], 0, x[2][0], slice(x[1], 0, 0, 2), ScatterReduction::prod);
         return square(scatter_reduce(x[0], 1, x[2], x[1], ScatterReduction::prod)) + product +
                scatter_reduce(x[0], 0, x[2], x[1], ScatterReduction::prod, false);
       }},
      {"index by several tensors, and put",
       {m, numbers(Shape::of(3, 4), -2, 2, 6), rows},
       [](X x) {
         const Tensor at = x[2][0];
         return square(index(x[0], {{}, at})) + sum(square(put(x[0], at, slice(x[1][0], 0, 0, 2), true))) +
                sum(square(index_put(x[0], {{}, at}, slice(x[1], 1, 0, 2))));
       }},
      {"mode, nanmedian and nanquantile",
       {m},
       [](X x) { return square(mode(x[0]).values) + square(nanmedian(x[0], 1).values) + nanquantile(x[0], 0.4, 1); }},
      {"dist and renorm", {m}, [](X x) { return dist(x[0], square(x[0]), 3) * renorm(x[0], 2, 0, 1.5); }},
      {"integrals and derivatives of samples",
       {v},
       [](X x) {
         const Tensor at = cumsum(square(x[0]) + 0.5, 0);
         return square(gradient(x[0], 0.5, {}, 2)[0]) + gradient(square(x[0]), {at}, {}, 2)[0] + trapezoid(x[0], at) +
                sum(square(cumulative_trapezoid(x[0], at)));
       }},
      {"diagonals and slices that are written",
       {m},
       [](X x) {
         return square(diagonal_scatter(x[0], square(x[0][0][1]) + diagonal(x[0]))) +
                square(select_scatter(x[0], square(x[0][0]), 0, 1)) + sum(square(diag_embed(x[0], 1))) +
                sum(square(block_diag({x[0], x[0][0]}))) + sum(square(combinations(x[0][0])));
       }},
      {"pads that cut",
       {m},
       [](X x) {
         return square(pad(x[0], {-1, 2}, Pads::reflect)) + pad(square(x[0]), {2, -1}, Pads::circular);
       }},
  };
}

}  // namespace weft::test
