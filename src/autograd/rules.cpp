#include "autograd/rules.hpp"

#include <limits>

#include "autograd/call.hpp"
#include "autograd/linalg.hpp"
#include "autograd/loops.hpp"
#include "base/fail.hpp"
#include "record/elementwise.hpp"
#include "record/indexing.hpp"
#include "record/ones.hpp"
#include "record/record.hpp"
#include "weft/detail/slopes.hpp"

namespace weft {

// Null where the program calls no linear algebra (record/linear_algebra.hpp).
[[gnu::weak]] void vjp_cholesky(const Pullback&), vjp_triangular_solve(const Pullback&), vjp_lu(const Pullback&),
    vjp_ldl(const Pullback&), vjp_qr(const Pullback&), vjp_eigh(const Pullback&), vjp_svd(const Pullback&),
    vjp_eig(const Pullback&), vjp_fourier(const Pullback&), vjp_real_fourier(const Pullback&),
    vjp_inverse_real_fourier(const Pullback&);

namespace {

// ---- pointwise: the table's own derivatives -----------------------------------------------------------------------

struct NoGradient {};
constexpr NoGradient none;

void put(const Pullback&, std::size_t, NoGradient) {}
void put(const Pullback& p, std::size_t operand, Tensor gradient) { p.results[operand] = std::move(gradient); }

Tensor operand_or_none(const Pullback& p, std::size_t i) {
  return i < p.node().operand_count ? p.operand(i) : Tensor();
}

#define WEFT_DERIVATIVE(i, expression) \
  if (p.wanted[i]) put(p, i, expression);
#define WEFT_DERIVATIVES_1(da) WEFT_DERIVATIVE(0, da)
#define WEFT_DERIVATIVES_2(da, db) WEFT_DERIVATIVE(0, da) WEFT_DERIVATIVE(1, db)
#define WEFT_DERIVATIVES_3(da, db, dc) WEFT_DERIVATIVE(0, da) WEFT_DERIVATIVE(1, db) WEFT_DERIVATIVE(2, dc)
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, reference, ...)                        \
  void vjp_##name(const Pullback& p) {                                                                    \
    [[maybe_unused]] const Tensor &g = p.gradient(), &y = p.value;                                        \
    [[maybe_unused]] const Tensor a = p.operand(0), b = operand_or_none(p, 1), c = operand_or_none(p, 2); \
    WEFT_DERIVATIVES_##arity(__VA_ARGS__)                                                                 \
  }
#include "weft/ops.def"
#undef WEFT_DERIVATIVES_1
#undef WEFT_DERIVATIVES_2
#undef WEFT_DERIVATIVES_3
#undef WEFT_DERIVATIVE

// ---- structural: one short function each ----------------------------------------------------------------------------

constexpr RecordingBuilder build;

// Leaves, and values that no infinitesimal change of an operand changes.
void no_gradient(const Pullback&) {}
constexpr Rule vjp_constant = no_gradient, vjp_input = no_gradient, vjp_data = no_gradient, vjp_iota = no_gradient,
               vjp_argmax = no_gradient, vjp_random_bits = no_gradient, vjp_stop_gradient = no_gradient,
               vjp_check = no_gradient;

void vjp_variable(const Pullback& p) { p.results[0] = p.gradient(); }

// What is differentiated is the sum of the losses of all processes. The sum over the group is linear and its own
// adjoint: each process's operand went into everyone's result.
void vjp_all_reduce_wait(const Pullback& p) { p.results[0] = p.gradient(); }
void vjp_all_reduce_start(const Pullback& p) {
  const Attributes& group = p.node().attributes();
  p.results[0] = build.make(Op::all_reduce_wait, {build.make(Op::all_reduce_start, {p.gradient()}, group)}, group);
}
template <Op adjoint>
void vjp_by_collective(const Pullback& p) {
  p.results[0] = build.make(adjoint, {p.gradient()}, p.node().attributes());
}
constexpr Rule vjp_broadcast = vjp_by_collective<Op::reduce_to_root>,
               vjp_reduce_to_root = vjp_by_collective<Op::broadcast>,
               vjp_all_gather = vjp_by_collective<Op::reduce_scatter>,
               vjp_reduce_scatter = vjp_by_collective<Op::all_gather>;

void vjp_transfer(const Pullback& p) {
  p.results[0] = build.make(Op::transfer, {p.gradient()}, {}, type_of(p.operand(0)));
}

void vjp_cast(const Pullback& p) { p.results[0] = build.make(Op::cast, {p.gradient()}, {}, type_of(p.operand(0))); }

void vjp_bitcast(const Pullback& p) {
  fail("bitcast", p.node().loc, "bitcast has no derivative: use stop_gradient or cast");
}

void vjp_reshape(const Pullback& p) { p.results[0] = build.reshape(p.gradient(), type_of(p.operand(0)).shape); }

AxisList inverse(const AxisList& axes) {
  AxisList result = axes;
  for (std::uint8_t i = 0; i < axes.count; ++i) result[axes[i]] = i;
  return result;
}
void vjp_permute(const Pullback& p) {
  p.results[0] = build.permute(p.gradient(), inverse(p.node().attributes<Permute>().axes));
}

// Sums over what was repeated. A size of 1 was not: the sum of one element, -0, would be 0.
void vjp_expand(const Pullback& p) {
  const Shape &from = type_of(p.operand(0)).shape, &to = p.node().type.shape;
  int lead = to.rank() - from.rank();
  AxisSet repeated;
  for (int i = 0; i < to.rank(); ++i)
    if (i < lead || (from[i - lead].same(Dim(1)) && !(to[i] == Dim(1)))) repeated.insert(i);
  Tensor total = p.gradient();
  if (!repeated.empty()) total = build.sum(settled_for_sum(total, repeated, p.node().loc), repeated);
  p.results[0] = build.reshape(total, from);
}

// Puts the elements back where they came from, among zeros.
void vjp_slice(const Pullback& p) {
  const Type& from = type_of(p.operand(0));
  auto [axis, start, step] = p.node().attributes<Slice>();
  Dim count = p.node().type.shape[axis];
  if (count == Dim(0)) {  // zeros; an infinite derivative would make them NaN
    p.results[0] = constant_like(0, from, p.node().loc);
    return;
  }
  Tensor g = p.gradient();
  if (step < 0) {
    g = build.slice(g, {axis, count - Dim(1), -1}, count);
    start = start + (count - Dim(1)) * Dim(step);
    step = -step;
  }
  const Dim after = from.shape[axis] - start - (count - Dim(1)) * Dim(step) - Dim(1);
  p.results[0] = build.make(Op::pad, {g}, Pad{axis, start, after, step - 1});
}

Shape without_axis(const Shape& shape, int axis) {
  Shape result;
  for (int i = 0; i < shape.rank(); ++i)
    if (i != axis) result.push_back(shape[i]);
  return result;
}
// Each window back to where it was read, place by place: elements in several windows get the sum.
void vjp_windows(const Pullback& p) {
  const auto& windows = p.node().attributes<Windows>();
  const Shape& from = type_of(p.operand(0)).shape;
  const Dim count = p.node().type.shape[windows.axis + 1], length = (count - Dim(1)) * Dim(windows.step) + Dim(1);
  Tensor total;
  for (std::int64_t place = 0; place < windows.size; ++place) {
    const Tensor one = build.reshape(build.slice(p.gradient(), {windows.axis, place, 1}, 1),
                                     without_axis(p.node().type.shape, windows.axis));
    const Dim before = place * windows.dilation;
    const Tensor spread =
        build.make(Op::pad, {one}, Pad{windows.axis, before, from[windows.axis] - before - length, windows.step - 1});
    total = total.defined() ? build.add(total, spread) : spread;
  }
  p.results[0] = total;
}

void vjp_concat(const Pullback& p) {
  const std::uint8_t axis = p.node().attributes<Along>().axis;
  Dim start = 0;
  for (std::size_t i = 0; i < p.node().operand_count; ++i) {
    Dim count = type_of(p.operand(i)).shape[axis];
    if (p.wanted[i]) p.results[i] = build.slice(p.gradient(), {axis, start, 1}, count);
    start = start + count;
  }
}

void vjp_pad(const Pullback& p) {
  const auto& pad = p.node().attributes<Pad>();
  p.results[0] =
      build.slice(p.gradient(), {pad.axis, pad.before, pad.interior + 1}, type_of(p.operand(0)).shape[pad.axis]);
}

void vjp_sum(const Pullback& p) { p.results[0] = build.expand(p.gradient(), type_of(p.operand(0)).shape); }

// For each i the product of rows[., 0 ... i - 1]: products of neighbours, then of pairs, of fours, ...
Tensor product_before(const Tensor& rows, Dim outer, std::int64_t n) {
  auto shifted = [&](const Tensor& x, std::int64_t by) {
    Type type = type_of(rows);
    type.shape = Shape::of(outer, by);
    Tensor parts[] = {constant_like(1, type, {}), build.slice(x, {1, 0, 1}, n - by)};
    return concat(parts, 1);
  };
  Tensor product = shifted(rows, 1);
  for (std::int64_t by = 1; by < n; by *= 2) product = product * shifted(product, by);
  return product;
}

// The derivative by an element is the product of the others. Without a division, so that it holds where elements are
// zero, in the derivatives of the derivative too. Of 16-bit floats in f32, as the product itself: that of some of the
// elements may leave their range.
void vjp_prod(const Pullback& p) {
  const DType own = type_of(p.operand(0)).dtype, wide = own == DType::f64 ? own : DType::f32;
  const Tensor x = cast(p.operand(0), wide);
  const Shape from = type_of(x).shape;
  const AxisSet reduced = p.node().attributes<Reduce>().axes;
  AxisList order;
  Dim inner = 1, outer = 1;
  for (int pass = 0; pass < 2; ++pass)  // kept axes, then reduced ones
    for (int i = 0; i < from.rank(); ++i)
      if (reduced[i] == (pass == 1)) {
        order.push_back(static_cast<std::uint8_t>(i));
        (pass ? inner : outer) = (pass ? inner : outer) * from[i];
      }
  auto n = static_cast<std::int64_t>(inner);
  Tensor g = build.expand(cast(p.gradient(), wide), from);
  if (n > 1) {
    Tensor ordered = build.permute(x, order);
    Tensor rows = build.reshape(ordered, Shape::of(outer, n));
    const Slice backwards{1, n - 1, -1};
    Tensor reversed = build.slice(rows, backwards, n);
    Tensor others = product_before(rows, outer, n) * build.slice(product_before(reversed, outer, n), backwards, n);
    g = g * build.permute(build.reshape(others, type_of(ordered).shape), inverse(order));
  }
  p.results[0] = cast(g, own);
}

// The same along the axis from its end on.
Tensor reversed(Op op, const Tensor& x, const Along& along) {
  return flip(build.make(op, {flip(x, along.axis)}, along), along.axis);
}
void vjp_cumsum(const Pullback& p) { p.results[0] = reversed(Op::cumsum, p.gradient(), p.node().attributes<Along>()); }

// The derivative by x[k] is the product of the elements before k, times r[k] = g[k] + x[k + 1] r[k + 1]. The recurrence
// is computed by doubling windows: of 1, 2, 4, ... elements from k on. No division, as in vjp_prod: elements may be 0.
// The axis becomes a number.
void vjp_cumprod(const Pullback& p) {
  const Along along = p.node().attributes<Along>();
  const int axis = along.axis;
  const DType own = type_of(p.operand(0)).dtype, wide = own == DType::f64 ? own : DType::f32;
  const Tensor x = cast(p.operand(0), wide);
  const auto n = static_cast<std::int64_t>(type_of(x).shape[axis]);
  Tensor rest = cast(p.gradient(), wide);
  if (n > 1) {
    Tensor window = slice(x, axis, 1);  // the product of the elements k + 1 ... k + width
    for (std::int64_t width = 1; width < n; width *= 2) {
      rest = concat({slice(rest, axis, 0, n - width) + window * slice(rest, axis, width), slice(rest, axis, n - width)},
                    axis);
      if (2 * width < n) window = slice(window, axis, 0, n - 2 * width) * slice(window, axis, width);
    }
    Type one = type_of(x);
    one.shape[axis] = 1;
    const Tensor products = build.make(Op::cumprod, {x}, along);
    rest = rest * concat({constant_like(1, one, p.node().loc), slice(products, axis, 0, n - 1)}, axis);
  }
  p.results[0] = cast(rest, own);
}

// To the element that is the extreme, which is the last one of equals.
void vjp_cummax(const Pullback& p) {
  const int axis = p.node().attributes<Along>().axis;
  const Tensor& x = p.operand(0);
  const Shape& shape = type_of(x).shape;
  const Tensor index = flat_positions(extreme_positions(x, p.value, axis, p.node().loc), shape, axis, p.node().loc);
  Type flat = type_of(x);
  flat.shape = Shape::of(shape.element_count());
  p.results[0] = build.reshape(build.make(Op::scatter_add, {flatten(index), flatten(p.gradient())}, {}, flat), shape);
}
constexpr Rule vjp_cummin = vjp_cummax;

// By x[k]: the sum over i from k on of g[i] exp(x[k] - y[i]), as a logarithm of a sum of exponentials again, for
// gradients above and below 0 apart, so that nothing overflows. A gradient of 0 is the difference of two small ones, so
// that the rule has its slope there too.
void vjp_logcumsumexp(const Pullback& p) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Along along = p.node().attributes<Along>();
  const DType own = type_of(p.operand(0)).dtype, wide = own == DType::f64 ? own : DType::f32;
  const Tensor x = cast(p.operand(0), wide), g = cast(p.gradient(), wide);
  const Tensor y = own == wide ? p.value : build.make(Op::logcumsumexp, {x}, along);
  const double small = wide == DType::f64 ? 1e-150 : 1e-15;
  const Tensor zero = g == 0;
  const auto part = [&](const Tensor& gradient) {
    const Tensor counts = ~((gradient <= 0) | (y == -infinity));
    const Tensor terms = where(counts, log(where(counts, gradient, 1)) - where(counts, y, 0), -infinity);
    return exp(reversed(Op::logcumsumexp, terms, along) + x);
  };
  p.results[0] = cast(part(where(zero, g + small, g)) - part(where(zero, small, -g)), own);
}

// Elements that tie for the extreme share its gradient evenly, as in PyTorch.
void vjp_amax(const Pullback& p) {
  const Tensor& x = p.operand(0);
  const Shape& shape = type_of(x).shape;
  Tensor ties = cast(x == build.expand(p.value, shape), type_of(x).dtype);
  Tensor share = p.gradient();
  share = share / build.make(Op::sum, {ties}, p.node().attributes());
  p.results[0] = ties * build.expand(share, shape);
}
constexpr Rule vjp_amin = vjp_amax;

// Whether a value is another one with its last two axes swapped.
bool is_transposed(const Tensor& value) {
  const Node& node = *value.node();
  int rank = node.type.shape.rank();
  if (node.op != Op::permute || rank < 2) return false;
  const AxisList& axes = node.attributes<Permute>().axes;
  for (std::size_t i = 0; i + 2 < axes.count; ++i)
    if (axes[i] != i) return false;
  return axes[axes.count - 1u] == rank - 2;
}
// The gradient of a sum of products, in the dtype of what is multiplied: a sum of 16-bit floats may be f32.
Tensor as_factor(const Pullback& p) { return cast(p.gradient(), type_of(p.operand(0)).dtype); }

// a b: g b^T and a^T g. The gradient of a transposed operand is computed as the transposed product, so that the value
// that was transposed (a layer's weights) gets a gradient in its own layout.
void vjp_matmul(const Pullback& p) {
  const Tensor &a = p.operand(0), &b = p.operand(1), g = as_factor(p);
  if (p.wanted[0]) p.results[0] = is_transposed(a) ? transpose(matmul(b, transpose(g))) : matmul(g, transpose(b));
  if (p.wanted[1]) p.results[1] = is_transposed(b) ? transpose(matmul(transpose(g), a)) : matmul(transpose(a), g);
}

// A convolution is bilinear: the gradient of each of its three values is a convolution of the other two.
Tensor convolved(const Pullback& p, Op op, const Tensor& a, const Tensor& b, const Tensor& like) {
  return build.make(op, {a, b}, p.node().attributes(), type_of(like));
}
void vjp_convolution(const Pullback& p) {
  const Tensor &input = p.operand(0), &weight = p.operand(1), g = as_factor(p);
  if (p.wanted[0]) p.results[0] = convolved(p, Op::convolution_input_gradient, g, weight, input);
  if (p.wanted[1]) p.results[1] = convolved(p, Op::convolution_weight_gradient, input, g, weight);
}
void vjp_convolution_input_gradient(const Pullback& p) {
  const Tensor &gradient = p.operand(0), &weight = p.operand(1), g = as_factor(p);
  if (p.wanted[0]) p.results[0] = convolved(p, Op::convolution, g, weight, gradient);
  if (p.wanted[1]) p.results[1] = convolved(p, Op::convolution_weight_gradient, g, gradient, weight);
}
void vjp_convolution_weight_gradient(const Pullback& p) {
  const Tensor &input = p.operand(0), &gradient = p.operand(1), g = as_factor(p);
  if (p.wanted[0]) p.results[0] = convolved(p, Op::convolution_input_gradient, gradient, g, input);
  if (p.wanted[1]) p.results[1] = convolved(p, Op::convolution, input, g, gradient);
}

void vjp_gather(const Pullback& p) {
  if (p.wanted[0]) p.results[0] = build.make(Op::scatter_add, {p.operand(1), p.gradient()}, {}, type_of(p.operand(0)));
}
void vjp_argsort(const Pullback&) {}
void vjp_update_slice(const Pullback& p) {
  const Type &whole = type_of(p.operand(0)), &part = type_of(p.operand(1));
  const int axis = p.node().attributes<Along>().axis;
  if (p.wanted[0]) {
    Type zeros = part;
    zeros.weak = false;
    const Tensor none = constant_like(0, zeros, p.node().loc);
    p.results[0] = build.make(Op::update_slice, {p.gradient(), none, p.operand(2)}, p.node().attributes(), whole);
  }
  if (p.wanted[1]) p.results[1] = slice(p.gradient(), axis, Index(p.operand(2)), part.shape[axis]);
}
// A row that a later one has replaced has no gradient.
void vjp_update_rows(const Pullback& p) {
  const auto [axis, adds] = p.node().attributes<RowUpdate>();
  const Tensor &updates = p.operand(1), &index = p.operand(2), &g = p.gradient();
  const Type &type = type_of(updates), &places = type_of(index);
  if (p.wanted[0]) {
    Type zeros = type;
    zeros.weak = false;
    p.results[0] = adds ? g
                        : build.make(Op::update_rows, {g, constant_like(0, zeros, p.node().loc), index},
                                     p.node().attributes(), p.node().type);
  }
  if (!p.wanted[1]) return;
  Tensor rows = build.make(Op::gather, {movedim(g, axis, 0), index});
  if (!adds) {
    const Tensor own = positions(0, places.shape, places.device, p.node().loc);
    const Type writers{DType::i64, false, places.device, Shape::of(p.node().type.shape[axis])};
    const Tensor last = build.make(Op::scatter_amax, {index, own}, {}, writers);
    Tensor stays = build.make(Op::gather, {last, index}) == own;
    for (int i = 1; i < type.shape.rank(); ++i) stays = unsqueeze(stays, -1);
    rows = where(stays, rows, 0);
  }
  p.results[1] = movedim(rows, 0, axis);
}
void vjp_scatter_add(const Pullback& p) {
  if (p.wanted[1]) p.results[1] = build.make(Op::gather, {p.gradient(), p.operand(0)});
}

// Updates that tie for the extreme share its gradient evenly.
void vjp_scatter_amax(const Pullback& p) {
  if (!p.wanted[1]) return;
  const Tensor &index = p.operand(0), &updates = p.operand(1);
  const Tensor ties = cast(updates == build.make(Op::gather, {p.value, index}), type_of(updates).dtype);
  const Tensor count = build.make(Op::scatter_add, {index, ties}, {}, p.node().type);
  p.results[1] = ties * build.make(Op::gather, {p.gradient() / maximum(count, 1), index});
}

void vjp_call(const Pullback& p) {
  if (p.node().definition)
    elementwise_gradients(p.value, p.gradients, p.results);
  else
    differentiate_call(p);
}

constexpr Rule vjp_scan = differentiate_scan, vjp_cond = differentiate_cond, vjp_host_call = differentiate_host_call;
void vjp_while_loop(const Pullback& p) {
  fail("while_loop", p.node().loc,
       "a while_loop has no gradient, since how often it runs is known only then: use scan, fori or jvp, or "
       "stop_gradient");
}

}  // namespace

Rule vector_jacobian_rule(Op op) {
  static constexpr Rule table[] = {
#define WEFT_POINTWISE(name, ...) vjp_##name,
#define WEFT_STRUCTURAL(name, ...) vjp_##name,
#include "weft/ops.def"
  };
  const Rule rule = table[static_cast<int>(op)];
  if (!rule)
    fail("grad", {},
         "the program's own code calls no linear algebra, so its derivatives are not linked: refer to a "
         "function of weft/linalg.hpp or weft/fft.hpp");
  return rule;
}

}  // namespace weft
