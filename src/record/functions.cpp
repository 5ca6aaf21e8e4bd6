// Elementwise functions that are composites over the primitives. In: operands. Out: one call, or loose nodes where
// dtypes or several numbers decide what is recorded.
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

#include "base/fail.hpp"
#include "ir/dtype.hpp"
#include "record/composite.hpp"
#include "weft/ops.hpp"

namespace weft {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

// Of one floating operand, and of two that are promoted and broadcast.
template <class F>
Tensor of_one(const char* name, const At& x, F compute) {
  Operation call(name, x.loc);
  const auto body = [&](const Tensor& value) { return in_wide(value, compute); };
  return composite(called(name), call.loc(), body, resolve(x, name));
}
template <class F>
Tensor of_two(const char* name, const At& a, const At& b, F compute) {
  Operation call(name, a.loc);
  Tensor values[] = {resolve(a, name), resolve(b, name)};
  unify(name, values, DTypeClass::floating, call.loc());
  const auto body = [&](const Tensor& x, const Tensor& y) {
    return in_wide(x, [&](const Tensor& wide) { return compute(wide, cast(y, type_of(wide).dtype)); });
  };
  return composite(called(name), call.loc(), body, values[0], values[1]);
}

// log(exp(a) + exp(b)) as the greater and what the lesser adds to it. Equal infinities are their own sum; their shares
// of the gradient are NaN, as in PyTorch: the derivative of the sum that is not taken is NaN there.
template <class F>
Tensor add_logarithms(const Tensor& a, const Tensor& b, F added) {
  const Tensor total = where(a > b, a, b) + added(where(a > b, b - a, a - b));
  return where((a == b) & ~isfinite(a), a, total);
}

// A function of several operands. Of 16-bit floats it is computed in f32 and rounded once, numbers beside them as they
// are.
template <class F>
Tensor rounded_once(const char* name, std::span<const At> list, Loc loc, F compute) {
  std::vector<Tensor> values;
  std::optional<Promotable> common;
  for (const At& each : list) {
    const Tensor& value = values.emplace_back(resolve(each, name));
    common = common ? promoted(*common, promotable(value), loc) : promotable(value);
  }
  const DType dtype = common->dtype, wide = is_floating(dtype) ? computed_in(dtype) : dtype;
  if (dtype == wide) return compute(list);
  for (Tensor& value : values)
    if (type_of(value).weak) value = cast(value, wide);
  Tensor result;
  const auto body = [&](std::span<const Tensor> inputs, std::span<Tensor> results) {
    std::vector<Tensor> kept;
    std::vector<At> widened;
    for (const Tensor& input : inputs) kept.push_back(cast(input, wide));
    for (const Tensor& each : kept) widened.emplace_back(each, loc);
    results[0] = cast(compute(std::span<const At>(widened)), dtype);
  };
  composite(called(name), values, std::span(&result, 1), loc, body);
  return result;
}

// Of two NaN the first, which has the gradient then, as in PyTorch.
Tensor pick_number(const char* name, const At& left, const At& right, Op op) {
  LooseComposite call(name, left.loc);
  Tensor values[] = {resolve(left, name), resolve(right, name)};
  unify(name, values, DTypeClass::arithmetic, call.loc());
  const auto& [a, b] = values;
  const Tensor picked = op == Op::maximum ? maximum(a, b) : minimum(a, b);
  if (!is_floating(type_of(a).dtype)) return picked;
  return where(isnan(b), a, where(isnan(a), b, picked));
}

}  // namespace

// Divided by the greater size, which the derivative takes for a constant: the function has degree 1, so it may.
// Infinite beside an infinity, whatever the other is, a NaN too: IEEE 754.
Tensor hypot(At a, At b) {
  return of_two("hypot", a, b, [](const Tensor& a, const Tensor& b) {
    const Tensor size = maximum(abs(a), abs(b)), infinite = (abs(a) == infinity) | (abs(b) == infinity);
    const Tensor scale = stop_gradient(where(isfinite(size) & (size > 0), size, 1)), x = a / scale, y = b / scale;
    const Tensor squares = x * x + y * y, none = squares == 0;  // at the origin the derivative is 0
    return where(infinite, infinity, where(none, 0, sqrt(where(none, 1, squares))) * scale);
  });
}
Tensor xlogy(At x, At y) {
  return of_two("xlogy", x, y, [](const Tensor& x, const Tensor& y) {
    return x * log(where((x == 0) & ((y <= 0) | (y == infinity)), 1, y)) + 0;  // no zero is negative
  });
}
Tensor logaddexp(At a, At b) {
  return of_two("logaddexp", a, b, [](const Tensor& a, const Tensor& b) {
    return add_logarithms(a, b, [](const Tensor& below) { return log1p(exp(below)); });
  });
}
Tensor logaddexp2(At a, At b) {
  return of_two("logaddexp2", a, b, [](const Tensor& a, const Tensor& b) {
    return add_logarithms(a, b, [](const Tensor& below) { return log1p(exp2(below)) * 1.4426950408889634; });
  });
}
// Without a derivative at 0, as in PyTorch.
Tensor copysign(At a, At b) {
  LooseComposite call("copysign", a.loc);
  Tensor values[] = {resolve(a, "copysign"), resolve(b, "copysign")};
  unify("copysign", values, DTypeClass::floating, call.loc());
  const auto& [size, sign] = values;
  const Tensor result = where(signbit(size) == signbit(sign), size, -size);
  return where(size == 0, stop_gradient(result), result);
}
Tensor fmax(At a, At b) { return pick_number("fmax", a, b, Op::maximum); }
Tensor fmin(At a, At b) { return pick_number("fmin", a, b, Op::minimum); }

Tensor frac(At x) {
  return of_one("frac", x, [](const Tensor& x) { return x - trunc(x); });
}
Tensor rad2deg(At x) {
  return of_one("rad2deg", x, [](const Tensor& x) { return x * 57.295779513082323; });
}
Tensor deg2rad(At x) {
  return of_one("deg2rad", x, [](const Tensor& x) { return x * 0.017453292519943295; });
}
// About 1/2 by atanh, since the two logarithms cancel there.
Tensor logit(At x, double eps) {
  LooseComposite call("logit", x.loc);
  if (!(eps <= 0.5)) fail("logit", call.loc(), "eps must be at most 0.5, it is ", eps);
  return in_wide(resolve(x, "logit"), [eps](const Tensor& given) {
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    Tensor p = given;
    if (eps >= 0)
      p = where(p < eps, eps, where(p > 1 - eps, 1 - eps, p));
    else
      p = p * where((p < 0) | (p > 1), nan, 1);  // a product, so that the derivative is NaN too
    const Tensor centered = p * 2 - 1, near = abs(centered) < 0.5;
    return where(near, atanh(where(near, centered, 0)) * 2, log(p) - log1p(-p));
  });
}

namespace {
Tensor truth_of(const char* name, const At& x) {
  const Tensor value = resolve(x, name);
  return type_of(value).dtype == DType::boolean ? value : value != 0;
}
}  // namespace
Tensor logical_not(At x) {
  LooseComposite call("logical_not", x.loc);
  return ~truth_of("logical_not", x);
}
Tensor logical_and(At a, At b) {
  LooseComposite call("logical_and", a.loc);
  return truth_of("logical_and", a) & truth_of("logical_and", b);
}
Tensor logical_or(At a, At b) {
  LooseComposite call("logical_or", a.loc);
  return truth_of("logical_or", a) | truth_of("logical_or", b);
}
Tensor logical_xor(At a, At b) {
  LooseComposite call("logical_xor", a.loc);
  return truth_of("logical_xor", a) ^ truth_of("logical_xor", b);
}

Tensor isinf(At x) {
  LooseComposite call("isinf", x.loc);
  const Tensor value = resolve(x, "isinf");
  return ~(isfinite(value) | isnan(value));
}
Tensor signbit(At x) {
  LooseComposite call("signbit", x.loc);
  const Tensor value = resolve(x, "signbit");
  const DType dtype = type_of(value).dtype;
  if (dtype == DType::boolean) return value & false;
  if (!is_floating(dtype)) return value < 0;
  return bitcast(value, integer_of_bits(dtype)) < 0;
}
static Tensor replace_unusual(const At& x, double nan, const double* positive, const double* negative) {
  LooseComposite call("nan_to_num", x.loc);
  const Tensor value = resolve(x, "nan_to_num");
  const DType dtype = type_of(value).dtype;
  if (!is_floating(dtype)) return value;
  const double largest = largest_finite(dtype);
  const Tensor finite = where(value == infinity, positive ? *positive : largest,
                              where(value == -infinity, negative ? *negative : -largest, value));
  return where(isnan(value), nan, finite);
}
Tensor nan_to_num(At x, double nan) { return replace_unusual(x, nan, nullptr, nullptr); }
Tensor nan_to_num(At x, double nan, double positive, double negative) {
  return replace_unusual(x, nan, &positive, &negative);
}
Tensor heaviside(At x, At value) {
  LooseComposite call("heaviside", x.loc);
  Tensor values[] = {resolve(x, "heaviside"), resolve(value, "heaviside")};
  unify("heaviside", values, DTypeClass::arithmetic, call.loc());
  return where(values[0] == 0, values[1], cast(values[0] > 0, type_of(values[0]).dtype));
}
// From the nearer end, so that a weight of 1 gives the end exactly.
Tensor lerp(At start, At end, At weight) {
  LooseComposite call("lerp", start.loc);
  const At list[] = {start, end, weight};
  return rounded_once("lerp", list, call.loc(), [&](std::span<const At> given) {
    Tensor values[] = {resolve(given[0], "lerp"), resolve(given[1], "lerp"), resolve(given[2], "lerp")};
    unify("lerp", values, DTypeClass::floating, call.loc());
    const auto& [a, b, w] = values;
    const Tensor way = b - a;
    return where(abs(w) < 0.5, a + way * w, b - way * (1 - w));
  });
}
Tensor addcmul(At x, At a, At b, At value) {
  LooseComposite call("addcmul", x.loc);
  const At list[] = {x, a, b, value};
  return rounded_once("addcmul", list, call.loc(),
                      [](std::span<const At> it) { return it[0] + it[1] * it[2] * it[3]; });
}
Tensor addcdiv(At x, At a, At b, At value) {
  LooseComposite call("addcdiv", x.loc);
  const At list[] = {x, a, b, value};
  return rounded_once("addcdiv", list, call.loc(),
                      [](std::span<const At> it) { return it[0] + it[1] / it[2] * it[3]; });
}

Tensor isclose(At left, At right, Closeness within) {
  LooseComposite call("isclose", left.loc);
  if (!(within.rtol >= 0 && within.atol >= 0))
    fail("isclose", call.loc(), "rtol ", within.rtol, " and atol ", within.atol, " must be 0 or more");
  Tensor values[] = {resolve(left, "isclose"), resolve(right, "isclose")};
  unify("isclose", values, DTypeClass::comparison, call.loc());
  const DType dtype = type_of(values[0]).dtype, wide = is_floating(dtype) ? computed_in(dtype) : DType::f64;
  const Tensor a = cast(values[0], wide), b = cast(values[1], wide), distance = abs(a - b);
  const Tensor near = (a == b) | (isfinite(distance) & (distance <= abs(b) * within.rtol + within.atol));
  return within.equal_nan ? near | (isnan(a) & isnan(b)) : near;
}
Tensor allclose(At a, At b, Closeness within) {
  LooseComposite call("allclose", a.loc);
  return all(isclose(a, b, within));
}

}  // namespace weft
