#include "passes/algebra.hpp"

#include <bit>
#include <cmath>

#include "base/seeded_bug.hpp"
#include "ir/builder.hpp"
#include "passes/fold.hpp"
#include "passes/regions.hpp"

namespace weft {
namespace {

// A node in question: its operands are already simplified.
struct Match {
  const Node& node;
  std::span<const Tensor> operands;
  const Tensor& operator[](std::size_t i) const { return operands[i]; }
  bool floating() const { return is_floating(type_of(operands.back()).dtype); }
};

bool is(const Tensor& value, Op op) { return value.node()->op == op; }
const Tensor& inner(const Tensor& value) { return value.node()->input(0); }

// True for a constant that is exactly `number`, the sign of zero included.
bool is_number(const Tensor& value, double number) {
  if (!is_uniform(value)) return false;
  double held = value.node()->attributes<Constant>().as_number(type_of(value).dtype);
  return held == number && std::signbit(held) == std::signbit(number);
}
// x + zero is x: for floats only -0, since -0 + 0 is 0.
bool is_nothing_to_add(const Match& m, const Tensor& value) {
  if (seeded(SeededBug::positive_zero_vanishes) && is_number(value, 0.0)) return true;
  return is_number(value, m.floating() ? -0.0 : 0.0);
}

Tensor like(const Match& m, Op op, std::initializer_list<Tensor> operands, const Attributes& attributes = {}) {
  return Builder(m.node).make(op, operands, attributes, m.node.type);
}

// ---- arithmetic ---------------------------------------------------------------------------------------------------

Tensor add_nothing(const Match& m) {
  return is_nothing_to_add(m, m[1]) ? m[0] : is_nothing_to_add(m, m[0]) ? m[1] : Tensor();
}
Tensor add_negated(const Match& m) {
  return is(m[1], Op::neg)   ? like(m, Op::sub, {m[0], inner(m[1])})
         : is(m[0], Op::neg) ? like(m, Op::sub, {m[1], inner(m[0])})
                             : Tensor();
}
Tensor subtract_nothing(const Match& m) { return is_number(m[1], 0.0) ? m[0] : Tensor(); }
Tensor subtract_negated(const Match& m) { return is(m[1], Op::neg) ? like(m, Op::add, {m[0], inner(m[1])}) : Tensor(); }
Tensor multiply_by_one(const Match& m) { return is_number(m[1], 1) ? m[0] : is_number(m[0], 1) ? m[1] : Tensor(); }
Tensor multiply_by_minus_one(const Match& m) {
  return is_number(m[1], -1) ? like(m, Op::neg, {m[0]}) : is_number(m[0], -1) ? like(m, Op::neg, {m[1]}) : Tensor();
}
Tensor divide_by_one(const Match& m) { return is_number(m[1], 1) ? m[0] : Tensor(); }

// x / 2^k is x * 2^-k to the last bit: both round one and the same number, while 2^-k is a normal number of the dtype.
Tensor divide_by_power_of_two(const Match& m) {
  if (!is_uniform(m[1])) return {};
  DType dtype = type_of(m[1]).dtype;
  double divisor = m[1].node()->attributes<Constant>().as_number(dtype);
  int exponent;
  if (!std::isfinite(divisor) || std::fabs(std::frexp(divisor, &exponent)) != 0.5) return {};
  int limit = dtype == DType::f64 ? 1021 : dtype == DType::f16 ? 13 : 125;
  if (std::abs(exponent) > limit) return {};
  Tensor reciprocal = Builder(m.node).constant(Constant::number(dtype, 1 / divisor), type_of(m[1]));
  return like(m, Op::mul, {m[0], reciprocal});
}

Tensor negate_twice(const Match& m) { return is(m[0], Op::neg) ? inner(m[0]) : Tensor(); }
Tensor power_one(const Match& m) { return is_number(m[1], 1) ? m[0] : Tensor(); }
Tensor power_two(const Match& m) { return is_number(m[1], 2) ? like(m, Op::mul, {m[0], m[0]}) : Tensor(); }

Tensor choose_same(const Match& m) { return m[1].same(m[2]) ? m[1] : Tensor(); }
Tensor choose_known(const Match& m) {
  return !is_uniform(m[0]) ? Tensor() : m[0].node()->attributes<Constant>().as_integer() != 0 ? m[1] : m[2];
}
Tensor complement_twice(const Match& m) { return is(m[0], Op::bitwise_not) ? inner(m[0]) : Tensor(); }

// ---- dtypes -------------------------------------------------------------------------------------------------------

// Every value of `from` is a value of `to`.
bool is_exact(DType from, DType to) {
  if (from == to || from == DType::boolean || seeded(SeededBug::inexact_cast_dropped)) return true;
  auto significand = [](DType dtype) {
    switch (dtype) {
      case DType::f64: return 53;
      case DType::f32: return 24;
      case DType::f16: return 11;
      case DType::bf16: return 8;
      case DType::u8: return 8;
      default: return info(dtype).bits - 1;
    }
  };
  if (is_floating(from) && !is_floating(to)) return false;
  if (is_floating(from)) return info(to).bits > info(from).bits;
  if (to == DType::boolean || to == DType::u8) return false;
  return significand(to) >= significand(from);
}
Tensor cast_to_same(const Match& m) { return type_of(m[0]).dtype == m.node.type.dtype ? m[0] : Tensor(); }
Tensor cast_of_exact_cast(const Match& m) {
  if (!is(m[0], Op::cast)) return {};
  const DType from = type_of(inner(m[0])).dtype, between = type_of(m[0]).dtype, to = m.node.type.dtype;
  if (!is_exact(from, between)) return {};
  // From a float an integer out of range saturates, from an integer it wraps.
  if (is_floating(between) && !is_floating(from) && is_integer(to) && !is_exact(from, to)) return {};
  return like(m, Op::cast, {inner(m[0])});
}

// ---- views --------------------------------------------------------------------------------------------------------

Tensor view_of_same_shape(const Match& m) { return type_of(m[0]).shape.same(m.node.type.shape) ? m[0] : Tensor(); }
// Of counts that are equal only through sizes between them, those sizes stay: what guards say is about them.
Tensor reshape_of_reshape(const Match& m) {
  const auto count = [](const Tensor& value) { return type_of(value).shape.element_count(); };
  if (!is(m[0], Op::reshape) || !count(inner(m[0])).same(m.node.type.shape.element_count())) return Tensor();
  return like(m, Op::reshape, {inner(m[0])});
}
Tensor expand_of_expand(const Match& m) { return is(m[0], Op::expand) ? like(m, Op::expand, {inner(m[0])}) : Tensor(); }
Tensor identity_permutation(const Match& m) {
  const AxisList& axes = m.node.attributes<Permute>().axes;
  for (std::size_t i = 0; i < axes.count; ++i)
    if (axes[i] != i) return {};
  return m[0];
}
Tensor permute_of_permute(const Match& m) {
  if (!is(m[0], Op::permute)) return {};
  AxisList first = m[0].node()->attributes<Permute>().axes, second = m.node.attributes<Permute>().axes, both;
  if (seeded(SeededBug::permutations_composed_backwards)) std::swap(first, second);
  for (std::uint8_t axis : second) both.push_back(first[axis]);
  return like(m, Op::permute, {inner(m[0])}, Permute{both});
}
Tensor slice_of_all(const Match& m) {
  const auto& slice = m.node.attributes<Slice>();
  return slice.step == 1 && slice.start.same(Dim(0)) ? view_of_same_shape(m) : Tensor();
}
Tensor pad_of_nothing(const Match& m) {
  const auto& pad = m.node.attributes<Pad>();
  return pad.interior == 0 && pad.before.same(Dim(0)) && pad.after.same(Dim(0)) ? m[0] : Tensor();
}
Tensor same_value(const Match& m) { return m[0]; }

// ---- the rules ----------------------------------------------------------------------------------------------------

struct Rule {
  Op op;
  Tensor (*apply)(const Match&);
};
constexpr Rule rules[] = {
    {Op::add, add_nothing},
    {Op::add, add_negated},
    {Op::sub, subtract_nothing},
    {Op::sub, subtract_negated},
    {Op::mul, multiply_by_one},
    {Op::mul, multiply_by_minus_one},
    {Op::div, divide_by_one},
    {Op::div, divide_by_power_of_two},
    {Op::neg, negate_twice},
    {Op::pow, power_one},
    {Op::pow, power_two},
    {Op::where, choose_same},
    {Op::where, choose_known},
    {Op::bitwise_not, complement_twice},
    {Op::cast, cast_to_same},
    {Op::cast, cast_of_exact_cast},
    {Op::reshape, view_of_same_shape},
    {Op::reshape, reshape_of_reshape},
    {Op::expand, view_of_same_shape},
    {Op::expand, expand_of_expand},
    {Op::permute, identity_permutation},
    {Op::permute, permute_of_permute},
    {Op::slice, slice_of_all},
    {Op::pad, pad_of_nothing},
    {Op::variable, same_value},
    {Op::stop_gradient, same_value},
};

// The first rule that gives a value of the same type; a rule that would change the type (a weak number in the place of
// a tensor) does not hold.
Tensor apply_first(const Match& match) {
  for (const Rule& rule : rules) {
    if (rule.op != match.node.op) continue;
    Tensor result = rule.apply(match);
    if (result.defined() && type_of(result).same(match.node.type)) return result;
  }
  return {};
}

// Until no rule holds. Each step removes a node or lowers what an operation costs, so this ends.
Tensor simplify(const Node& node, std::span<const Tensor> operands) {
  if (node.output_count != 1) return {};
  Tensor result = apply_first({node, operands});
  while (result.defined() && result.output() == 0) {
    Tensor next = apply_first({*result.node(), result.node()->inputs()});
    if (!next.defined()) break;
    result = next;
  }
  return result;
}

}  // namespace

Graph simplify_algebra(const Graph& graph) { return rewrite(in_bodies(graph, simplify_algebra), simplify); }

}  // namespace weft
