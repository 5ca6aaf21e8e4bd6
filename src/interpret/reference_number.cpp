#include "interpret/reference_number.hpp"

#include <bit>
#include <limits>

#include "base/fail.hpp"
#include "interpret/reference.hpp"

namespace weft {
namespace reference {

std::int64_t wrap(DType dtype, Integer value) {
  auto bits = static_cast<std::uint64_t>(value);
  if (dtype == DType::boolean) return value != 0;
  const int beyond = 64 - info(dtype).bits;
  const bool is_signed = integer_range(dtype).least < 0;
  return is_signed ? static_cast<std::int64_t>(bits << beyond) >> beyond
                   : static_cast<std::int64_t>(bits << beyond >> beyond);
}

// ---- pointwise primitives: one expansion of the table's `reference` column ------------------------------------------

namespace {

template <class Function>
Number on_floats(Function f, const Number* x) {
  return {static_cast<double>(f(x[0].real, x[1].real, x[2].real)), 0};
}
template <class Function>
Number on_integers(Function f, const Number* x) {
  return {0, static_cast<Integer>(f(x[0].integer, x[1].integer, x[2].integer))};
}
template <DTypeClass Class, class Function>
Number apply(Function f, DType dtype, const Number* x) {
  bool floats = is_floating(dtype);
  if constexpr (Class == DTypeClass::floating) {
    return on_floats(f, x);
  } else if constexpr (Class == DTypeClass::predicate) {
    return {0, f(x[0].real, x[1].real, x[2].real) ? 1 : 0};
  } else if constexpr (Class == DTypeClass::comparison) {
    bool holds = floats ? f(x[0].real, x[1].real, x[2].real) : f(x[0].integer, x[1].integer, x[2].integer);
    return {0, holds ? 1 : 0};
  } else if constexpr (Class == DTypeClass::bits) {
    Number result = on_integers(f, x);
    if (dtype == DType::boolean) result.integer &= 1;  // ~ of a bool is its opposite
    return result;
  } else if constexpr (Class == DTypeClass::select) {
    bool condition = x[0].integer != 0;
    return {f(condition, x[1].real, x[2].real), f(condition, x[1].integer, x[2].integer)};
  } else {
    return floats ? on_floats(f, x) : on_integers(f, x);
  }
}

}  // namespace

Number pointwise(Op op, DType dtype, const Number* x) {
  switch (op) {
#define WEFT_POINTWISE(name, arity, dtypes, rounding, cost, lanes, reference, ...)                                  \
  case Op::name:                                                                                                    \
    return apply<DTypeClass::dtypes>(                                                                               \
        []([[maybe_unused]] auto a, [[maybe_unused]] auto b, [[maybe_unused]] auto c) { return reference; }, dtype, \
        x);
#include "weft/ops.def"
    default: break;
  }
  WEFT_CHECK(false, info(op).name, " is not pointwise");
}

// ---- dtypes -------------------------------------------------------------------------------------------------------

Number cast(DType to, DType from, Number x) {
  if (is_floating(from) && is_floating(to)) return {round_to(to, x.real), 0};
  if (is_floating(to)) return {round_to(to, static_cast<long double>(static_cast<std::int64_t>(x.integer))), 0};
  if (!is_floating(from)) return {0, wrap(to, x.integer)};
  if (to == DType::boolean) return {0, x.real != 0};
  if (x.real != x.real) return {0, 0};
  const auto [low, high] = integer_range(to);
  if (x.real <= static_cast<double>(low)) return {0, low};
  if (x.real >= static_cast<double>(high)) return {0, high};
  return {0, static_cast<Integer>(x.real)};
}

namespace {

double decode_narrow(std::uint64_t bits, int exponent_bits, int fraction_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
  auto fraction = static_cast<double>(bits & ((1u << fraction_bits) - 1));
  double scale = std::ldexp(1.0, -fraction_bits);
  double size = exponent == 0                          ? std::ldexp(fraction * scale, 1 - bias)
                : exponent == (1 << exponent_bits) - 1 ? (fraction != 0 ? NAN : INFINITY)
                                                       : std::ldexp(1 + fraction * scale, exponent - bias);
  return bits >> (exponent_bits + fraction_bits) & 1 ? -size : size;
}
std::uint64_t encode_narrow(double value, int exponent_bits, int fraction_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  std::uint64_t sign = std::uint64_t{std::signbit(value)} << (exponent_bits + fraction_bits),
                top = (std::uint64_t{1} << exponent_bits) - 1;
  if (value != value) return sign | top << fraction_bits | std::uint64_t{1} << (fraction_bits - 1);
  if (std::isinf(value)) return sign | top << fraction_bits;
  if (value == 0) return sign;
  int exponent = std::max(std::ilogb(value), 1 - bias);
  auto fraction = static_cast<std::uint64_t>(std::ldexp(std::fabs(value), fraction_bits - exponent));
  // A normal number's leading one adds 1 to the exponent field; a denormal has none.
  return sign | ((static_cast<std::uint64_t>(exponent + bias - 1) << fraction_bits) + fraction);
}

}  // namespace

Number decode(DType dtype, std::uint64_t bits) {
  switch (dtype) {
    case DType::f64: return {std::bit_cast<double>(bits), 0};
    case DType::f32: return {std::bit_cast<float>(static_cast<std::uint32_t>(bits)), 0};
    case DType::f16: return {decode_narrow(bits & 0xffff, 5, 10), 0};
    case DType::bf16: return {decode_narrow(bits & 0xffff, 8, 7), 0};
    case DType::f8e4m3:  // the greatest exponent is one of numbers, but for the last code
      return {(bits & 0x7f) == 0x7f ? std::copysign(NAN, bits & 0x80 ? -1 : 1)
              : (bits & 0x78) == 0x78
                  ? std::ldexp((bits & 0x80 ? -1.0 : 1.0) * (1 + static_cast<double>(bits & 7) / 8), 8)
                  : decode_narrow(bits & 0xff, 4, 3),
              0};
    case DType::f8e5m2: return {decode_narrow(bits & 0xff, 5, 2), 0};
    case DType::boolean: return {0, (bits & 0xff) != 0};
    default: return {0, wrap(dtype, static_cast<Integer>(bits))};
  }
}
std::uint64_t encode(DType dtype, Number x) {
  switch (dtype) {
    case DType::f64: return std::bit_cast<std::uint64_t>(x.real);
    case DType::f32: return std::bit_cast<std::uint32_t>(static_cast<float>(x.real));
    case DType::f16: return encode_narrow(x.real, 5, 10);
    case DType::bf16: return encode_narrow(x.real, 8, 7);
    case DType::f8e4m3: return std::isfinite(x.real) ? encode_narrow(x.real, 4, 3) : 0x7f | encode_narrow(x.real, 4, 3);
    case DType::f8e5m2: return x.real != x.real ? 0x7f | encode_narrow(x.real, 5, 2) : encode_narrow(x.real, 5, 2);
    default: return static_cast<std::uint64_t>(x.integer);
  }
}

}  // namespace reference

namespace {

reference::Number rounded(DType dtype, reference::Number value) {
  if (is_floating(dtype)) return {round_to(dtype, value.real), 0};
  return {0, reference::wrap(dtype, value.integer)};
}

}  // namespace

std::optional<Constant> fold(Op op, const Type& result, std::span<const Tensor> operands) {
  if (!is_pointwise(op) || operands.empty() || operands.size() > 3) return {};
  reference::Number x[3];
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Node& node = *operands[i].node();
    if (node.op != Op::constant || node.type.shape.rank() != 0) return {};
    const auto& number = node.attributes<Constant>();
    if (number.is_size()) return {};
    x[i] = is_floating(node.type.dtype) ? reference::Number{number.as_number(node.type.dtype), 0}
                                        : reference::Number{0, number.as_integer()};
    x[i] = rounded(node.type.dtype, x[i]);
  }
  DType from = type_of(operands.back()).dtype;
  reference::Number folded = op == Op::cast      ? reference::cast(result.dtype, from, x[0])
                             : op == Op::bitcast ? reference::decode(result.dtype, reference::encode(from, x[0]))
                                                 : reference::pointwise(op, from, x);
  folded = rounded(result.dtype, folded);
  return is_floating(result.dtype) ? Constant::number(result.dtype, folded.real)
                                   : Constant::integer(static_cast<std::int64_t>(folded.integer));
}

}  // namespace weft
