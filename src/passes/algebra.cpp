#include "passes/algebra.hpp"

#include <cmath>

#include "passes/fold.hpp"

namespace weft {
namespace {

using namespace pattern;

bool is_of_integers(const Match& m) { return !is_floating(m.node.type.dtype); }

// c = 2^k, and 2^-k is a normal number of the dtype too. Then x / c and x * (1 / c) round one and the same number.
double divisor(const Match& m) {
  return is_uniform(m[c]) ? m[c].node()->attributes<Constant>().as_number(type_of(m[c]).dtype) : 0;
}
bool is_power_of_two(const Match& m) {
  int exponent;
  if (!std::isfinite(divisor(m)) || std::fabs(std::frexp(divisor(m), &exponent)) != 0.5) return false;
  const DType dtype = type_of(m[c]).dtype;
  return std::abs(exponent) <= ((1 << (info(dtype).exponent - 1)) - 3);
}
Tensor times_reciprocal(const Match& m) {
  const Type& type = type_of(m[c]);
  const Tensor reciprocal = m.build().constant(Constant::number(type.dtype, 1 / divisor(m)), type);
  return m.build().make(Op::mul, {m[x], reciprocal}, {}, m.node.type);
}

// Every value of `from` is a value of `to`.
bool holds_all_of(DType to, DType from) {
  if (from == to || from == DType::boolean) return true;
  if (is_floating(from) && !is_floating(to)) return false;
  if (is_floating(from)) return info(to).bits > info(from).bits;
  if (!is_floating(to))
    return integer_range(to).least <= integer_range(from).least &&
           integer_range(from).greatest <= integer_range(to).greatest;
  return significand(to) >= info(from).bits - (integer_range(from).least < 0);
}
bool first_cast_is_exact(const Match& m) {
  const DType from = type_of(m[x]).dtype, between = type_of(m.operands[0]).dtype, to = m.node.type.dtype;
  if (!holds_all_of(between, from)) return false;
  // From a float an integer out of range saturates, from an integer it wraps.
  return !is_floating(between) || is_floating(from) || !is_integer(to) || holds_all_of(to, from);
}

// Of counts that are equal only through sizes between them, those sizes stay: what guards say is about them.
bool is_of_same_count(const Match& m) {
  return type_of(m[x]).shape.element_count().same(m.node.type.shape.element_count());
}
bool keeps_order(const Match& m) {
  const AxisList& axes = m.node.attributes<Permute>().axes;
  for (std::size_t i = 0; i < axes.count; ++i)
    if (axes[i] != i) return false;
  return true;
}
Tensor permuted_by_both(const Match& m) {
  const AxisList& first = m.operands[0].node()->attributes<Permute>().axes;
  AxisList both;
  for (std::uint8_t axis : m.node.attributes<Permute>().axes) both.push_back(first[axis]);
  return m.build().permute(m[x], both);
}
// Rows are chosen where the table lies, whatever is permuted after them.
bool leaves_first_axis(const Match& m) {
  return m.operands[0].node()->attributes<Permute>().axes[0] == 0 && type_of(m[y]).shape.rank() == 1;
}
Tensor permuted_after_gather(const Match& m) {
  const AxisList& axes = m.operands[0].node()->attributes<Permute>().axes;
  return m.build().permute(m.build().make(Op::gather, {m[x], m[y]}), axes);
}
bool starts_at_first(const Match& m) {
  const auto& slice = m.node.attributes<Slice>();
  return slice.step == 1 && slice.start.same(Dim(0));
}
bool adds_nothing(const Match& m) {
  const auto& pad = m.node.attributes<Pad>();
  return pad.interior == 0 && pad.before.same(Dim(0)) && pad.after.same(Dim(0));
}

constexpr Rewrite rows[] = {
    {x + -0.0, x},  // of floats only -0 adds nothing: -0 + 0 is 0
    {x + 0, x, is_of_integers},
    {x + -y, x - y},
    {x - 0, x},
    {x - -y, x + y},
    {x * 1, x},
    {x * -1, -x},
    {x / 1, x},
    {x / c, {"mul(x, 1 / c)", times_reciprocal}, is_power_of_two},
    {-(-x), x},
    {pow(x, 1), x},
    {pow(x, 2), x* x},
    {where(x, y, y), y},
    {where(true, x, y), x},
    {where(false, x, y), y},
    {~~x, x},
    {cast(x), x},  // where the type stays, as everywhere
    {cast(cast(x)), cast(x), first_cast_is_exact},
    {reshape(x), x},
    {reshape(reshape(x)), reshape(x), is_of_same_count},
    {expand(x), x},
    {expand(expand(x)), expand(x)},
    {permute(x), x, keeps_order},
    {permute(permute(x)), {"permute(x)", permuted_by_both}},
    {gather(permute(x), y), {"permute(gather(x, y))", permuted_after_gather}, leaves_first_axis},
    {slice(x), x, starts_at_first},
    {pad(x), x, adds_nothing},
    {variable(x), x},
    {stop_gradient(x), x},
};

}  // namespace

constinit const RewriteTable algebra(rows);

Graph simplify_algebra(const Graph& graph, const PassContext& context) { return rewrite(graph, algebra, context); }

}  // namespace weft
