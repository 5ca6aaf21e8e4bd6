// Promotion, casts and what works element by element.
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "oracle/semantics.hpp"

namespace oracle {

using weft::DTypeKind;
using weft::info;

// ---- promotion: torch.result_type -----------------------------------------------------------------------------------

namespace {
DType wider(DType a, DType b) {
  if (a == b) return a;
  if (info(a).kind != info(b).kind) return info(a).kind < info(b).kind ? b : a;
  if ((a == DType::f16 && b == DType::bf16) || (a == DType::bf16 && b == DType::f16)) return DType::f32;
  if (!weft::is_integer(a) || is_signed(a) == is_signed(b))
    return info(a).bits < info(b).bits || b == DType::f64 ? b : a;
  // The least signed integer that holds both.
  const int plain = info(is_signed(a) ? b : a).bits, with_sign = info(is_signed(a) ? a : b).bits;
  const int bits = std::max(with_sign, 2 * plain);
  return bits == 16 ? DType::i16 : bits == 32 ? DType::i32 : DType::i64;
}
Shape broadcast(const std::string& name, const Shape& a, const Shape& b) {
  Shape shape(std::max(a.size(), b.size()));
  for (std::size_t i = 0; i < shape.size(); ++i) {
    std::int64_t x = i < a.size() ? a[a.size() - 1 - i] : 1, y = i < b.size() ? b[b.size() - 1 - i] : 1;
    if (x != y && x != 1 && y != 1) throw Refused(name);
    shape[shape.size() - 1 - i] = x == 1 ? y : x;
  }
  return shape;
}
}  // namespace

DType promote(const Array& a, const Array& b) {
  const auto rank = [](const Array& x) { return x->weak ? 0 : x.rank() == 0 ? 1 : 2; };
  const auto own = [](const Array& x, bool alone) { return x->weak && x.floating() && !alone ? DType::f32 : x->dtype; };
  if (rank(a) == rank(b)) return wider(a->dtype, b->dtype);
  const Array &high = rank(a) > rank(b) ? a : b, &low = rank(a) > rank(b) ? b : a;
  const DType above = high->dtype, below = own(low, false);
  if (info(above).kind == DTypeKind::floating) return above;
  if (info(above).kind == DTypeKind::boolean || info(below).kind == DTypeKind::floating) return wider(above, below);
  return above;
}

// ---- casts ----------------------------------------------------------------------------------------------------------

Array cast(const Array& x, DType dtype) {
  if (x->dtype == dtype && !x->weak) return x;
  Array y = make(dtype, x->shape);
  const auto count = static_cast<std::size_t>(x.count());
  for (std::size_t i = 0; i < count; ++i) {
    if (x.floating()) {
      const double from = x->reals[i];
      if (weft::is_floating(dtype)) {
        y.data->reals[i] = finish(dtype, static_cast<Wide>(from), false);
      } else if (dtype == DType::boolean) {
        y.data->integers[i] = from != 0;
      } else {
        const int digits = info(dtype).bits - is_signed(dtype);
        const double low = is_signed(dtype) ? -std::ldexp(1.0, digits) : 0;
        const Integer high = (Integer{1} << digits) - 1;
        y.data->integers[i] = from != from                        ? 0
                              : from <= low                       ? static_cast<std::int64_t>(low)
                              : from >= static_cast<double>(high) ? static_cast<std::int64_t>(high)
                                                                  : static_cast<std::int64_t>(from);
      }
    } else if (weft::is_floating(dtype)) {
      y.data->reals[i] = finish(dtype, static_cast<Wide>(x->integers[i]), false);
    } else {
      y.data->integers[i] = wrap(dtype, x->integers[i]);
    }
  }
  if (x.floating() && y.floating()) {
    y.data->operands = {x};
    y.data->rules = {[to = x->dtype](const Array&, const Array& g) { return cast(g, to); }};
  }
  return y;
}

Array bitcast(const Array& x, DType dtype) {
  if (info(x->dtype).bits != info(dtype).bits) throw Refused("bitcast");
  if (x->dtype == dtype) return x;
  Array y = make(dtype, x->shape);
  const auto bits_of = [](DType d, double v) -> std::uint64_t {
    if (d == DType::f64) return std::bit_cast<std::uint64_t>(v);
    if (d == DType::f32) return std::bit_cast<std::uint32_t>(static_cast<float>(v));
    if (d == DType::bf16) return std::bit_cast<std::uint32_t>(static_cast<float>(v)) >> 16;
    const std::uint64_t sign = std::signbit(v) ? 0x8000u : 0;
    if (v != v) return sign | 0x7e00u;
    v = std::fabs(v);
    if (std::isinf(v)) return sign | 0x7c00u;
    if (v < 0x1p-14) return sign | static_cast<std::uint64_t>(v * 0x1p24);
    const int e = std::ilogb(v);
    return sign | ((static_cast<std::uint64_t>(e + 14) << 10) + static_cast<std::uint64_t>(std::ldexp(v, 10 - e)));
  };
  const auto value_of = [](DType d, std::uint64_t b) -> double {
    if (d == DType::f64) return std::bit_cast<double>(b);
    if (d == DType::f32) return std::bit_cast<float>(static_cast<std::uint32_t>(b));
    if (d == DType::bf16) return std::bit_cast<float>(static_cast<std::uint32_t>(b << 16));
    const int e = static_cast<int>(b >> 10 & 31), m = static_cast<int>(b & 1023);
    const double v = e == 31 ? (m ? NAN : INFINITY) : e ? std::ldexp(1024 + m, e - 25) : std::ldexp(m, -24);
    return b >> 15 & 1 ? -v : v;
  };
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.count()); ++i) {
    const std::uint64_t bits =
        x.floating() ? bits_of(x->dtype, x->reals[i])
                     : static_cast<std::uint64_t>(x->integers[i]) & ~std::uint64_t{0} >> (64 - info(dtype).bits);
    if (y.floating())
      y.data->reals[i] = value_of(dtype, bits);
    else if (x.floating() && x->reals[i] != x->reals[i])
      y.data->integers[i] = undecided(dtype, wrap(dtype, static_cast<Integer>(bits)));
    else
      y.data->integers[i] = wrap(dtype, static_cast<Integer>(bits));
  }
  return y;
}

namespace {
// The operand in a computation's dtype: a number beside a tensor fits, or is an error.
Array operand_in(const std::string& name, const Array& x, DType dtype) {
  if (x->weak && !x.floating() && !weft::is_floating(dtype) && wrap(dtype, x->integers[0]) != x->integers[0])
    throw Refused(name);
  return cast(x, dtype);
}
}  // namespace

// ---- one operand ----------------------------------------------------------------------------------------------------

namespace {
Array b(const char* name, const Array& x, const Array& y) { return binary(name, x, y); }
Array u(const char* name, const Array& x) { return unary(name, x); }
Array lit(double value) { return number(DType::f64, value, true); }

// A function with an error of its own may miss a result that is a value of the dtype, but for 0 and 1.
Wide own_error(DType dtype, Wide precise) {
  if (!std::isfinite(precise) || precise == 0 || std::fabs(precise) == 1) return 0;
  return static_cast<Wide>(spacing(dtype, static_cast<double>(precise)));
}

enum class Kind { arithmetic, floating, predicate, bits };
struct Unary {
  Kind kind;
  enum { exact, once, several } rounding;
  Wide (*real)(Wide);
  Integer (*whole)(Integer);
  Array (*rule)(const Array& x, const Array& y, const Array& g);
};
Integer same(Integer x) { return x; }
Array no_slope(const Array&, const Array&, const Array&) { return {}; }

const std::map<std::string, Unary>& unary_table() {
  using enum Kind;
  static const std::map<std::string, Unary> table = {
      {"neg",
       {arithmetic, Unary::exact, [](Wide x) { return -x; }, [](Integer x) { return -x; },
        [](const Array&, const Array&, const Array& g) { return u("neg", g); }}},
      {"abs",
       {arithmetic, Unary::exact, [](Wide x) { return std::fabs(x); }, [](Integer x) { return x < 0 ? -x : x; },
        [](const Array& x, const Array&, const Array& g) { return b("mul", g, u("sign", x)); }}},
      {"sign",
       {arithmetic, Unary::exact, [](Wide x) { return static_cast<Wide>((x > 0) - (x < 0)); },
        [](Integer x) { return static_cast<Integer>((x > 0) - (x < 0)); }, no_slope}},
      {"relu",
       {arithmetic, Unary::exact, [](Wide x) { return x != x  ? x
                                                      : x > 0 ? x
                                                              : Wide{0}; },
        [](Integer x) { return x > 0 ? x : Integer{0}; },
        [](const Array& x, const Array&, const Array& g) { return where(b("less_equal", x, lit(0)), lit(0), g); }}},
      {"floor", {arithmetic, Unary::exact, [](Wide x) { return std::floor(x); }, same, no_slope}},
      {"ceil", {arithmetic, Unary::exact, [](Wide x) { return std::ceil(x); }, same, no_slope}},
      {"round", {arithmetic, Unary::exact, [](Wide x) { return std::nearbyint(x); }, same, no_slope}},
      {"trunc", {arithmetic, Unary::exact, [](Wide x) { return std::trunc(x); }, same, no_slope}},
      {"exp",
       {floating, Unary::several, [](Wide x) { return std::exp(x); }, nullptr,
        [](const Array&, const Array& y, const Array& g) { return b("mul", g, y); }}},
      {"expm1",
       {floating, Unary::several, [](Wide x) { return std::expm1(x); }, nullptr,
        [](const Array&, const Array& y, const Array& g) { return b("mul", g, b("add", y, lit(1))); }}},
      {"log",
       {floating, Unary::several, [](Wide x) { return std::log(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) { return b("div", g, x); }}},
      {"log1p",
       {floating, Unary::several, [](Wide x) { return std::log1p(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) { return b("div", g, b("add", x, lit(1))); }}},
      {"sqrt",
       {floating, Unary::once, [](Wide x) { return std::sqrt(x); }, nullptr,
        [](const Array&, const Array& y, const Array& g) { return b("div", b("mul", g, lit(0.5)), y); }}},
      {"rsqrt",
       {floating, Unary::several, [](Wide x) { return 1 / std::sqrt(x); }, nullptr,
        [](const Array& x, const Array& y, const Array& g) {
          return b("div", b("mul", b("mul", g, lit(-0.5)), y), x);
        }}},
      {"reciprocal",
       {floating, Unary::once, [](Wide x) { return 1 / x; }, nullptr,
        [](const Array&, const Array& y, const Array& g) { return u("neg", b("mul", b("mul", g, y), y)); }}},
      {"sin",
       {floating, Unary::several, [](Wide x) { return std::sin(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) { return b("mul", g, u("cos", x)); }}},
      {"cos",
       {floating, Unary::several, [](Wide x) { return std::cos(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) { return u("neg", b("mul", g, u("sin", x))); }}},
      {"tanh",
       {floating, Unary::several, [](Wide x) { return std::tanh(x); }, nullptr,
        [](const Array&, const Array& y, const Array& g) { return b("mul", g, b("sub", lit(1), b("mul", y, y))); }}},
      {"erf",
       {floating, Unary::several, [](Wide x) { return std::erf(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) {
          return b("mul", b("mul", g, lit(1.1283791670955126)), u("exp", u("neg", b("mul", x, x))));
        }}},
      {"exp2",
       {floating, Unary::several, [](Wide x) { return std::exp2(x); }, nullptr,
        [](const Array&, const Array& y, const Array& g) {
          return b("mul", b("mul", g, y), lit(0.69314718055994531));
        }}},
      {"log2",
       {floating, Unary::several, [](Wide x) { return std::log2(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) {
          return b("div", g, b("mul", x, lit(0.69314718055994531)));
        }}},
      {"log10",
       {floating, Unary::several, [](Wide x) { return std::log10(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) {
          return b("div", g, b("mul", x, lit(2.3025850929940457)));
        }}},
      {"atan",
       {floating, Unary::several, [](Wide x) { return std::atan(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) { return b("div", g, b("add", b("mul", x, x), lit(1))); }}},
      {"sinh",
       {floating, Unary::several, [](Wide x) { return std::sinh(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) { return b("mul", g, u("cosh", x)); }}},
      {"cosh",
       {floating, Unary::several, [](Wide x) { return std::cosh(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) { return b("mul", g, u("sinh", x)); }}},
      {"asinh",
       {floating, Unary::several, [](Wide x) { return std::asinh(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) {
          // By the greater of |x| and 1, as ours: which zero the second derivative is at 0 depends on it.
          const Array size = u("abs", x), is_large = b("less", lit(1), size), large = where(is_large, size, lit(1)),
                      ratio = b("div", where(is_large, lit(1), x), large);
          return b("div", b("mul", g, u("rsqrt", b("add", b("mul", ratio, ratio), lit(1)))), large);
        }}},
      {"erfc",
       {floating, Unary::several, [](Wide x) { return std::erfc(x); }, nullptr,
        [](const Array& x, const Array&, const Array& g) {
          return b("mul", b("mul", g, lit(-1.1283791670955126)), u("exp", u("neg", b("mul", x, x))));
        }}},
      {"sigmoid",
       {floating, Unary::several, [](Wide x) { return 1 / (1 + std::exp(-x)); }, nullptr,
        [](const Array&, const Array& y, const Array& g) { return b("mul", b("mul", g, y), b("sub", lit(1), y)); }}},
      {"isnan", {predicate, Unary::exact, [](Wide x) { return Wide(x != x); }, nullptr, nullptr}},
      {"isfinite", {predicate, Unary::exact, [](Wide x) { return Wide(std::isfinite(x)); }, nullptr, nullptr}},
      {"isposinf", {predicate, Unary::exact, [](Wide x) { return Wide(x == INFINITY); }, nullptr, nullptr}},
      {"isneginf", {predicate, Unary::exact, [](Wide x) { return Wide(x == -INFINITY); }, nullptr, nullptr}},
      {"ndtr",
       {floating, Unary::several, [](Wide x) { return std::erfc(x * -0.70710678118654752440L) / 2; }, nullptr,
        [](const Array& x, const Array&, const Array& g) {
          return b("mul", b("mul", g, lit(0.3989422804014327)), u("exp", b("mul", b("mul", x, x), lit(-0.5))));
        }}},
      {"bitwise_not", {bits, Unary::exact, nullptr, [](Integer x) { return ~x; }, nullptr}},
  };
  return table;
}
}  // namespace

Array unary(const std::string& name, const Array& given) {
  if (name == "square") {
    const Array x = given->dtype == DType::boolean ? cast(given, DType::i64) : given;
    return binary("operator*", x, x);
  }
  if (name == "silu") return in_wide(given, [](const Array& x) { return binary("mul", x, unary("sigmoid", x)); });
  const Unary& row = unary_table().at(name);
  Array x = given;
  if (row.kind == Kind::arithmetic && x->dtype == DType::boolean) throw Refused(name);
  if (row.kind == Kind::bits && x.floating()) throw Refused(name);
  if ((row.kind == Kind::floating || row.kind == Kind::predicate) && !x.floating()) x = cast(x, DType::f32);
  Array y = make(row.kind == Kind::predicate ? DType::boolean : x->dtype, x->shape);
  for (std::size_t i = 0; i < static_cast<std::size_t>(x.count()); ++i) {
    if (row.kind == Kind::predicate) {
      y.data->integers[i] = row.real(static_cast<Wide>(x->reals[i])) != 0;
    } else if (!x.floating()) {
      y.data->integers[i] = x->dtype == DType::boolean ? !x->integers[i] : wrap(x->dtype, row.whole(x->integers[i]));
    } else if (row.rounding == Unary::once && x->dtype == DType::f64) {  // extended precision would round twice
      const double once = name == "sqrt" ? std::sqrt(x->reals[i]) : 1 / x->reals[i];
      y.data->reals[i] =
          perturbation().soft ? finish(DType::f64, row.real(static_cast<Wide>(x->reals[i])), true) : once;
    } else {
      const Wide precise = row.real(static_cast<Wide>(x->reals[i]));
      double value = finish(x->dtype, precise, row.rounding == Unary::several,
                            row.rounding == Unary::several ? own_error(x->dtype, precise) : 0);
      y.data->reals[i] = row.rounding == Unary::exact && name != "neg" && name != "abs" ? open_zero(value) : value;
    }
  }
  if (y.floating() && row.rule) {
    y.data->operands = {x};
    y.data->rules = {[x, rule = row.rule](const Array& y, const Array& g) { return rule(x, y, g); }};
  }
  return y;
}

// ---- two operands ---------------------------------------------------------------------------------------------------

namespace {
bool comparison(const std::string& name) {
  return name == "equal" || name == "not_equal" || name == "less" || name == "less_equal";
}

Integer power(Integer base, Integer exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  std::uint64_t result = 1, square = static_cast<std::uint64_t>(base);
  for (; exponent > 0; exponent /= 2, square *= square)
    if (exponent % 2) result *= square;
  return static_cast<std::int64_t>(result);
}

// The greatest common divisor, not negative.
Integer divisor_of(Integer x, Integer y) {
  while (y != 0) x = std::exchange(y, x % y);
  return x < 0 ? -x : x;
}

std::int64_t on_integers(const std::string& name, DType dtype, Integer x, Integer y) {
  if (name == "gcd") return wrap(dtype, divisor_of(x, y));
  if (name == "lcm") {
    const Integer product = x == 0 || y == 0 ? Integer{0} : wrap(dtype, x / divisor_of(x, y) * y);
    return wrap(dtype, product < 0 ? -product : product);
  }
  if (name == "add") return wrap(dtype, x + y);
  if (name == "sub") return wrap(dtype, x - y);
  if (name == "mul")
    return wrap(dtype, static_cast<Integer>(static_cast<unsigned __int128>(x) * static_cast<unsigned __int128>(y)));
  if (name == "maximum") return wrap(dtype, std::max(x, y));
  if (name == "minimum") return wrap(dtype, std::min(x, y));
  if (name == "pow") return wrap(dtype, power(x, y));
  if (name == "bitwise_and") return wrap(dtype, x & y);
  if (name == "bitwise_or") return wrap(dtype, x | y);
  if (name == "bitwise_xor") return wrap(dtype, x ^ y);
  if (y == 0) return undecided(dtype, 0);  // PyTorch throws
  Integer quotient = x / y, rest = x % y;
  if (rest != 0 && (rest < 0) != (y < 0)) quotient -= 1, rest += y;
  return wrap(dtype, name == "floor_divide" ? quotient : rest);
}

double on_reals(const std::string& name, DType dtype, double x, double y) {
  const Wide a = static_cast<Wide>(x), c = static_cast<Wide>(y);
  const bool hard = dtype == DType::f64 && !perturbation().soft;  // extended precision would round twice
  if (name == "add") return hard ? x + y : finish(dtype, a + c, false);
  if (name == "sub") return hard ? x - y : finish(dtype, a - c, false);
  if (name == "mul") return hard ? x * y : finish(dtype, a * c, false);
  if (name == "div") return hard ? x / y : finish(dtype, a / c, false);
  if (name == "maximum" || name == "minimum") {
    if (x != x || y != y) return NAN;
    if (x == y) return std::signbit(x) == std::signbit(y) ? x : open_zero(x);
    return (x < y) == (name == "maximum") ? y : x;
  }
  if (name == "pow") return finish(dtype, std::pow(a, c), true, own_error(dtype, std::pow(a, c)));
  // A quotient rounded down, and the rest: the jump is not decided where a rounding of the quotient reaches it.
  const Wide quotient = a / c;
  if (!std::isfinite(quotient) || c == 0) {
    if (name == "floor_divide") return c == 0 ? x / y : undecided(static_cast<double>(quotient));
    return std::isfinite(a) && std::isfinite(c) && c != 0 ? undecided(0) : NAN;
  }
  if (std::isinf(c)) {  // the quotient is a zero, of which the sign is lost
    const bool below = a != 0 && (a < 0) != (c < 0);
    if (name == "floor_divide") return below ? -1 : open_zero(0);
    return below ? y : open_zero(x);
  }
  const Wide whole = std::nearbyint(quotient);
  const Wide reach = 8 * static_cast<Wide>(spacing(dtype, static_cast<double>(quotient)));
  const bool exact = std::fmod(a, c) == 0;
  const bool near = !exact && std::fabs(quotient - whole) <= reach;
  Wide rest = std::fmod(a, c);
  if (rest != 0 && (rest < 0) != (c < 0)) rest += c;
  if (name == "floor_divide") {
    const double result = round_to(dtype, std::floor(quotient));
    return near || std::fabs(quotient) > std::ldexp(Wide{1}, precision(dtype)) ? undecided(result) : open_zero(result);
  }
  return near ? undecided(static_cast<double>(rest)) : open_zero(finish(dtype, rest, true));
}

using Rule2 = Array (*)(const Array& a, const Array& c, const Array& y, const Array& g);
std::pair<Rule2, Rule2> rules_of(const std::string& name) {
  static const std::map<std::string, std::pair<Rule2, Rule2>> table = {
      {"add",
       {[](const Array&, const Array&, const Array&, const Array& g) { return g; },
        [](const Array&, const Array&, const Array&, const Array& g) { return g; }}},
      {"sub",
       {[](const Array&, const Array&, const Array&, const Array& g) { return g; },
        [](const Array&, const Array&, const Array&, const Array& g) { return u("neg", g); }}},
      {"mul",
       {[](const Array&, const Array& c, const Array&, const Array& g) { return b("mul", g, c); },
        [](const Array& a, const Array&, const Array&, const Array& g) { return b("mul", g, a); }}},
      {"div",
       {[](const Array&, const Array& c, const Array&, const Array& g) { return b("div", g, c); },
        [](const Array&, const Array& c, const Array& y, const Array& g) {
          return b("div", u("neg", b("mul", g, y)), c);
        }}},
      {"maximum",
       {[](const Array& a, const Array& c, const Array&, const Array& g) {
          return where(b("equal", a, c), b("mul", g, lit(0.5)), where(b("less", a, c), lit(0), g));
        },
        [](const Array& a, const Array& c, const Array&, const Array& g) {
          return where(b("equal", a, c), b("mul", g, lit(0.5)), where(b("less", c, a), lit(0), g));
        }}},
      {"minimum",
       {[](const Array& a, const Array& c, const Array&, const Array& g) {
          return where(b("equal", a, c), b("mul", g, lit(0.5)), where(b("less", c, a), lit(0), g));
        },
        [](const Array& a, const Array& c, const Array&, const Array& g) {
          return where(b("equal", a, c), b("mul", g, lit(0.5)), where(b("less", a, c), lit(0), g));
        }}},
      {"pow",
       {[](const Array& a, const Array& c, const Array&, const Array& g) {
          return where(b("equal", c, lit(0)), lit(0), b("mul", b("mul", g, c), b("pow", a, b("sub", c, lit(1)))));
        },
        [](const Array& a, const Array& c, const Array& y, const Array& g) {
          return where(b("bitwise_and", b("equal", a, lit(0)), b("less_equal", lit(0), c)), lit(0),
                       b("mul", b("mul", g, y), u("log", a)));
        }}},
      {"remainder",
       {[](const Array&, const Array&, const Array&, const Array& g) { return g; },
        [](const Array& a, const Array& c, const Array&, const Array& g) {
          return u("neg", b("mul", g, b("floor_divide", a, c)));
        }}},
  };
  const auto found = table.find(name);
  return found == table.end() ? std::pair<Rule2, Rule2>{} : found->second;
}
}  // namespace

Array binary(const std::string& given, const Array& left, const Array& right) {
  static const std::map<std::string, std::string> operators = {
      {"operator-", "sub"},        {"operator/", "div"},         {"operator%", "remainder"},
      {"operator==", "equal"},     {"operator!=", "not_equal"},  {"operator&", "bitwise_and"},
      {"operator|", "bitwise_or"}, {"operator^", "bitwise_xor"}, {"operator<", "less"},
      {"operator<=", "less_equal"}};
  if (given == "operator>") return binary("less", right, left);
  if (given == "operator>=") return binary("less_equal", right, left);
  std::string name = given;
  const bool booleans = left->dtype == DType::boolean && right->dtype == DType::boolean;
  if (name == "operator+") name = booleans ? "bitwise_or" : "add";
  if (name == "operator*") name = booleans ? "bitwise_and" : "mul";
  if (const auto found = operators.find(name); found != operators.end()) name = found->second;
  const bool compares = comparison(name), logic = name.starts_with("bitwise");
  const Shape shape = broadcast(name, left->shape, right->shape);
  DType dtype = promote(left, right);
  if (!compares && !logic && dtype == DType::boolean && name != "div") throw Refused(name);
  if (logic && weft::is_floating(dtype)) throw Refused(name);
  if ((name == "gcd" || name == "lcm") && !weft::is_integer(dtype)) throw Refused(name);
  if (name == "div" && !weft::is_floating(dtype)) dtype = DType::f32;
  const bool weak = left->weak && right->weak;
  // Beside f16 and bf16 a number is not rounded to these, as in PyTorch: f32, and rounded once.
  const bool picks = compares || logic || name == "maximum" || name == "minimum";
  if (left->weak != right->weak && weft::is_floating(dtype) && info(dtype).bits == 16 && !picks) {
    const Array& value = left->weak ? left : right;
    const double given = value.floating() ? value->reals[0] : static_cast<double>(value->integers[0]);
    if (given == given && finish(dtype, static_cast<Wide>(given), false) != given)
      return cast(binary(name, cast(left, DType::f32), cast(right, DType::f32)), dtype);
  }
  const Array a = expand(operand_in(name, left, dtype), shape), c = expand(operand_in(name, right, dtype), shape);
  if (name == "pow" && right->weak && !a.floating() && right->integers[0] < 0) throw Refused(name);
  Array y = make(compares ? DType::boolean : dtype, shape);
  y.data->weak = weak && !compares;
  for (std::size_t i = 0; i < static_cast<std::size_t>(y.count()); ++i) {
    if (compares) {
      const auto compare = [&](auto p, auto q) {
        return name == "equal" ? p == q : name == "not_equal" ? p != q : name == "less" ? p < q : p <= q;
      };
      y.data->integers[i] = a.floating() ? compare(a->reals[i], c->reals[i]) : compare(a->integers[i], c->integers[i]);
    } else if (!a.floating()) {
      y.data->integers[i] = on_integers(name, dtype, a->integers[i], c->integers[i]);
    } else {
      y.data->reals[i] = on_reals(name, dtype, a->reals[i], c->reals[i]);
    }
  }
  if (const auto [first, second] = rules_of(name); y.floating() && first) {
    y.data->operands = {a, c};
    y.data->rules = {[a, c, rule = first](const Array& y, const Array& g) { return rule(a, c, y, g); },
                     [a, c, rule = second](const Array& y, const Array& g) { return rule(a, c, y, g); }};
  }
  return y;
}

Array in_place(const std::string& name, const Array& a, const Array& b) {
  const Array y = binary(name, a, b);
  if (y->shape != a->shape || info(y->dtype).kind > info(a->dtype).kind) throw Refused("in-place");
  return cast(y, a->dtype);
}

Array where(const Array& condition, const Array& left, const Array& right) {
  if (condition->dtype != DType::boolean) throw Refused("where");
  DType dtype = promote(left, right);
  if (left->weak && right->weak && dtype == DType::f64) dtype = DType::f32;  // numbers alone: of the default dtype
  const Shape shape = broadcast("where", broadcast("where", condition->shape, left->shape), right->shape);
  const Array which = expand(condition, shape), a = expand(operand_in("where", left, dtype), shape),
              c = expand(operand_in("where", right, dtype), shape);
  Array y = make(dtype, shape);
  for (std::size_t i = 0; i < static_cast<std::size_t>(y.count()); ++i) {
    const Array& from = which->integers[i] ? a : c;
    if (y.floating())
      y.data->reals[i] = from->reals[i];
    else
      y.data->integers[i] = from->integers[i];
  }
  if (y.floating()) {
    y.data->operands = {a, c};
    y.data->rules = {[which](const Array&, const Array& g) { return where(which, g, lit(0)); },
                     [which](const Array&, const Array& g) { return where(which, lit(0), g); }};
  }
  return y;
}

// ---- composites -----------------------------------------------------------------------------------------------------

// One dtype for all three. The gradient is x's between the bounds and at them, and of that bound that x is held at.
Array clamp(const Array& x, const Array& low, const Array& high) {
  Array both = make(promote(x, low), x.rank() == 0 && low.rank() == 0 ? Shape() : Shape{1});
  both.data->weak = x->weak && low->weak;
  const DType dtype = promote(both, high);
  const Array value = operand_in("clamp", x, dtype), least = operand_in("clamp", low, dtype),
              most = operand_in("clamp", high, dtype);
  const Array bounded = binary("minimum", binary("maximum", value, least), most);
  if (!bounded.floating()) return bounded;
  const auto both_hold = [](const Array& p, const Array& q) { return binary("bitwise_and", p, q); };
  const Array inside = both_hold(binary("less_equal", least, value), binary("less_equal", value, most));
  const Array at_least = both_hold(binary("less", value, least), binary("less_equal", least, most));
  const Array known = binary("equal", value, value);  // NaN is held at neither
  const Array at_most =
      both_hold(known, binary("bitwise_or", binary("less", most, value), binary("less", most, least)));
  Array y = where(inside, value, where(at_least, least, where(at_most, most, stop_gradient(bounded))));
  y.data->reals = bounded->reals;
  return y;
}

Array in_wide(const Array& x, const std::function<Array(const Array&)>& compute) {
  if (x->dtype == DType::f32 || x->dtype == DType::f64) return compute(x);
  const Array y = compute(cast(x, DType::f32));
  return x.floating() ? cast(y, x->dtype) : y;
}

namespace {
Array gelu_of(const Array& x, bool by_tanh) {
  const Array half = b("mul", x, lit(0.5));
  if (!by_tanh) return b("mul", half, b("add", u("erf", b("mul", x, lit(0.70710678118654752))), lit(1)));
  const Array cube = b("mul", b("mul", b("mul", lit(0.044715), x), x), x);  // in f16 its order decides what overflows
  const Array inner = b("mul", b("add", x, cube), lit(0.79788456080286536));
  return b("mul", half, b("add", u("tanh", inner), lit(1)));
}
}  // namespace
Array gelu(const Array& given, bool by_tanh) {
  Soft soft;
  return in_wide(given, [&](const Array& x) { return gelu_of(x, by_tanh); });
}

Array stop_gradient(const Array& x) {
  Array y = make(x->dtype, x->shape);
  y.data->weak = x->weak;
  y.data->reals = x->reals;
  y.data->integers = x->integers;
  return y;
}
Array variable(const Array& x) {
  Array y = stop_gradient(x);
  y.data->operands = {x};
  y.data->rules = {[](const Array&, const Array& g) { return g; }};
  return y;
}

}  // namespace oracle
