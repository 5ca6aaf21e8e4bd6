// The factors of symmetric matrices, L D L^T, and solutions by them.
#include "record/composite.hpp"
#include "record/linalg.hpp"
#include "weft/linalg.hpp"

namespace weft::linalg {

LDLParts parts_of_ldl(const Tensor& ld, const Tensor& pivots) {
  LDLParts parts;
  parts.first = pivots < 0;
  parts.second = roll(parts.first, 1, -1);
  parts.rows = where(parts.first, -1 - pivots, pivots);
  const Dim n = size_at(ld, 1);
  const Shape shape = Shape::of(n, n);
  const Device device = type_of(ld).device;
  const Tensor below = positions(0, shape, device, {}) == positions(1, shape, device, {}) + 1;
  parts.in_block = below & unsqueeze(parts.first, -2);
  parts.l = where(parts.in_block, 0, ld);
  parts.diagonal = diagonal_of(ld);
  parts.below = sum(where(parts.in_block, ld, 0), -2);
  return parts;
}

// Of a block [a e; e c] x[0] is ((c / e) (y[0] / e) - y[1] / e) / ((a / e) (c / e) - 1), which does not overflow where
// its terms do not: e is the greatest of the three, about (LAPACK's sytrs).
Tensor divide_by_blocks(const LDLParts& parts, const Tensor& y) {
  const auto other = [&](const Tensor& x, const Tensor& first, int axis) {
    return where(first, roll(x, -1, axis), roll(x, 1, axis));
  };
  const Tensor block = parts.first | parts.second;
  const Tensor below = where(parts.first, parts.below, where(parts.second, roll(parts.below, 1, -1), 1));
  const Tensor own = where(block, parts.diagonal / below, 1);
  const Tensor opposite = where(block, other(parts.diagonal, parts.first, -1) / below, 0);
  const Tensor determinant = where(block, own * opposite - 1, where(block, 1, parts.diagonal));
  const Tensor scaled = y / unsqueeze(below, -1);
  const Tensor across = where(unsqueeze(block, -1), other(scaled, unsqueeze(parts.first, -1), -2), 0);
  return (scaled * unsqueeze(where(block, opposite, 1), -1) - across) / unsqueeze(determinant, -1);
}

LDLFactors ldl_factor(At given) {
  LooseComposite call("ldl_factor", given.loc);
  const Tensor a = matrix("ldl_factor", given, call.loc(), true);
  const Tensor ld = record(Op::ldl, {a}, {}, {}, {}), pivots = result_of(ld, 1);
  const Tensor first = pivots < 0;
  require_all((diagonal_of(ld) != 0) | first | roll(first, 1, -1), "ldl_factor", "is singular", a, call.loc());
  return {ld, pivots};
}

Tensor ldl_solve(At given, At rows, At right) {
  LooseComposite call("ldl_solve", given.loc);
  Tensor ld = matrix("ldl_solve", given, call.loc(), true), b = matrix("ldl_solve", right, call.loc());
  Tensor pivots = resolve(rows, "ldl_solve");
  require_pivots("ldl_solve", ld, pivots, call.loc());
  if (!(size_at(b, 2) == size_at(ld, 1)))
    fail("ldl_solve", call.loc(), "the right side does not fit: ", to_string(type_of(ld)), " and ",
         to_string(type_of(b)));
  check_range(where(pivots < 0, -1 - pivots, pivots), size_at(ld, 1), "ldl_solve", call.loc(), ld);
  broadcast_batches("ldl_solve", ld, b, call.loc());
  Shape whole = type_of(ld).shape;
  whole.resize(whole.rank() - 1);
  const LDLParts parts = parts_of_ldl(ld, expand(cast(pivots, DType::i64), whole));
  const Tensor inner = triangular(parts.l, take_rows(b, parts.rows), {.unit = true});
  const Tensor outer = triangular(parts.l, divide_by_blocks(parts, inner), {.transposed = true, .unit = true});
  return take_rows(outer, argsort(parts.rows));
}

}  // namespace weft::linalg
