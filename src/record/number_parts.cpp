// Floats and their bits, decimals, divisors of integers: exact functions.
#include <cmath>
#include <utility>

#include "base/fail.hpp"
#include "record/special.hpp"
#include "weft/loops.hpp"
#include "weft/special.hpp"

namespace weft {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), ln_2 = 0.69314718055994531;

Tensor floating(const char* name, const At& x, Loc loc) {
  Tensor value = resolve(x, name);
  if (!is_floating(type_of(value).dtype)) fail(name, loc, "takes floats: ", to_string(type_of(value)));
  return value;
}

void refuse_nextafter(const CallValues&, std::span<Tensor>) {
  fail("nextafter", recorder().loc, "nextafter has no derivative: use stop_gradient");
}

// Of floats with one sign the order is that of their bits.
Tensor next_after(const Tensor& from, const Tensor& to) {
  const DType dtype = type_of(from).dtype;
  const DType integer = integer_of_bits(dtype);
  const Tensor bits = bitcast(from, integer), one = cast(bits == bits, integer);
  const Tensor moved = where((to > from) == (from > 0), bits + one, bits - one);
  const Tensor least = where(to > 0, one, bitcast(-bitcast(one, dtype), integer));
  const Tensor next = bitcast(where(from == 0, least, moved), dtype);
  return where(isnan(from) | isnan(to), from + to, where(from == to, to, next));
}

// 2^exponent as factors that are finite, the last the greatest: only it may give a result that is subnormal.
Tensor scaled_by(const Tensor& x, const Tensor& exponent) {
  const auto held = [](const Tensor& e) { return clamp(e, -1022, 1023); };
  const Tensor first = held(exponent), rest = exponent - first, second = held(rest), third = held(rest - second);
  return x * exp2(third) * exp2(second) * exp2(first);
}

// By the exponent it is log(2) of the result, as it is of a product with a power of two.
void differentiate_ldexp(const CallValues& call, std::span<Tensor> gradients) {
  const Tensor &x = call.operands[0], &exponent = call.operands[1];
  if (is_floating(type_of(x).dtype)) gradients[0] = ldexp(call.gradients[0], exponent);
  if (is_floating(type_of(exponent).dtype)) put_gradient(call, gradients, 1, in_f64(call.results[0]) * ln_2);
}

template <class F>
Tensor of_integers(const char* name, const At& a, const At& b, F compute) {
  Operation call(name, a.loc);
  Tensor values[] = {resolve(a, name), resolve(b, name)};
  unify(name, values, DTypeClass::integers, call.loc());
  return composite(called(name), call.loc(), compute, values[0], values[1]);
}
// Euclid's method on all elements, until none has a rest.
Tensor greatest_divisor(const Tensor& a, const Tensor& b) {
  using State = std::pair<Tensor, Tensor>;
  const State last = while_loop([](const State& state) { return any(state.second != 0); },
                                [](const State& state) {
                                  const auto& [a, b] = state;
                                  return State{where(b == 0, a, b), fmod(a, b)};
                                },
                                State{a, b});
  return abs(last.first);
}

Tensor is_infinity(const char* name, const At& x, double which) {
  LooseComposite call(name, x.loc);
  const Tensor value = resolve(x, name);
  return is_floating(type_of(value).dtype) ? value == which : value != value;
}

}  // namespace

Tensor nextafter(At from, At to) {
  constexpr const char* name = "nextafter";
  Operation call(name, from.loc);
  Tensor values[] = {resolve(from, name), resolve(to, name)};
  if (!is_floating(type_of(values[0]).dtype) && !is_floating(type_of(values[1]).dtype))
    fail(name, call.loc(), "takes floats: ", to_string(type_of(values[0])), " and ", to_string(type_of(values[1])));
  unify(name, values, DTypeClass::floating, call.loc());
  return composite_with(refuse_nextafter, called(name), call.loc(), next_after, values[0], values[1]);
}

Tensor ldexp(At x, At exponent) {
  constexpr const char* name = "ldexp";
  Operation call(name, x.loc);
  Tensor values[] = {resolve(x, name), resolve(exponent, name)};
  if (is_floating(type_of(values[1]).dtype)) unify(name, values, DTypeClass::floating, call.loc());
  const auto body = [](const Tensor& x, const Tensor& exponent) {
    const DType dtype = type_of(x).dtype;
    return cast(scaled_by(in_f64(x), in_f64(exponent)), is_floating(dtype) ? dtype : DType::f32);
  };
  return composite_with(differentiate_ldexp, called(name), call.loc(), body, values[0], values[1]);
}

// The exponent is in the bits of an f64, once a subnormal number has been made greater.
MantissaAndExponent frexp(At x) {
  constexpr const char* name = "frexp";
  Operation call(name, x.loc);
  Tensor values[] = {floating(name, x, call.loc())}, results[2];
  const auto body = [](std::span<const Tensor> inputs, std::span<Tensor> results) {
    const Tensor x = in_f64(inputs[0]), fixed = stop_gradient(x);
    const Tensor is_tiny = abs(fixed) < 0x1p-1022, grown = where(is_tiny, fixed * 0x1p54, fixed);
    const Tensor biased = bitwise_right_shift(bitcast(grown, DType::i64), 52) & 2047;
    const Tensor exponent = where(isfinite(fixed) & (fixed != 0), biased - where(is_tiny, 1022 + 54, 1022), 0);
    results[0] = cast(scaled_by(x, in_f64(-exponent)), type_of(inputs[0]).dtype);
    results[1] = cast(exponent, DType::i32);
  };
  composite(called(name), values, results, call.loc(), body);
  return {results[0], results[1]};
}

Tensor round(At x, int decimals) {
  LooseComposite call("round", x.loc);
  const Tensor value = resolve(x, "round");
  if (decimals == 0) return round(value);
  const DType dtype = type_of(value).dtype;
  if (!is_floating(dtype)) {
    if (decimals < 0) fail("round", call.loc(), "integers to ", decimals, " decimals: cast them to a float first");
    return round(value);
  }
  return in_wide(value, [decimals](const Tensor& x) {
    const double power = std::pow(10.0, std::abs(decimals));
    const Tensor scaled = decimals > 0 ? x * power : x / power, whole = round(scaled);
    const Tensor result = decimals > 0 ? whole / power : whole * power;
    return where(isfinite(scaled), result, stop_gradient(x));
  });
}

Tensor isposinf(At x) { return is_infinity("isposinf", x, infinity); }
Tensor isneginf(At x) { return is_infinity("isneginf", x, -infinity); }

Tensor gcd(At a, At b) { return of_integers("gcd", a, b, greatest_divisor); }
Tensor lcm(At a, At b) {
  return of_integers("lcm", a, b, [](const Tensor& a, const Tensor& b) {
    const Tensor divisor = greatest_divisor(a, b);
    return abs(floor_divide(a, divisor) * b);
  });
}

}  // namespace weft
