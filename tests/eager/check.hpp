// Holds the eager executor against the reference interpreter. In: a function over tensors and its inputs. The function
// runs once eagerly and once recorded into a graph that the interpreter walks; the results are compared element by
// element within a bound that the test derives.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "interpret/reference.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "weft/ops.hpp"

namespace weft::test {

inline constexpr DType all_dtypes[] = {
#define WEFT_DTYPE(name, ...) DType::name,
#include "weft/dtypes.def"
#undef WEFT_DTYPE
};

inline std::string text(DType dtype) { return info(dtype).name; }

using Function = std::function<Tensor(std::span<const Tensor>)>;

inline double decode(float16 x) { return static_cast<double>(std::bit_cast<_Float16>(x.bits)); }
inline double decode(bfloat16 x) { return std::bit_cast<float>(std::uint32_t{x.bits} << 16); }
inline double decode(float8_e4m3fn x) { return static_cast<float>(x); }  // tests/trace/float8_test.cpp checks these
inline double decode(float8_e5m2 x) { return static_cast<float>(x); }
template <class T>
requires std::is_arithmetic_v<T> T decode(T x) { return x; }

template <class T>
Literal literal_as(const Tensor& tensor) {
  Literal literal{type_of(tensor)};
  View<const T> data = tensor.data<T>();
  for (T x : data)
    if (is_floating(literal.type.dtype))
      literal.reals.push_back(static_cast<double>(decode(x)));
    else
      literal.integers.push_back(static_cast<std::int64_t>(decode(x)));
  return literal;
}
// One element, in row-major order.
template <class T>
T element(const Tensor& tensor, std::size_t i) {
  return tensor.data<T>()[i];
}
// The computed elements, read through data().
inline Literal literal_of(const Tensor& tensor) {
  switch (type_of(tensor).dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) \
  case DType::name:                                                                        \
    return literal_as<type>(tensor);
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  return {};
}

inline float16 encode(double x, float16) {
  return float16::from_bits(std::bit_cast<std::uint16_t>(static_cast<_Float16>(x)));
}
inline bfloat16 encode(double x, bfloat16) {  // x has no more digits than a bf16
  return bfloat16::from_bits(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(static_cast<float>(x)) >> 16));
}
inline float8_e4m3fn encode(double x, float8_e4m3fn) { return float8_e4m3fn(x); }
inline float8_e5m2 encode(double x, float8_e5m2) { return float8_e5m2(x); }
template <class T>
requires std::is_arithmetic_v<T> T encode(double x, T) { return static_cast<T>(x); }
template <class T>
Tensor tensor_as(const Literal& literal) {
  std::size_t count = std::max(literal.reals.size(), literal.integers.size());
  std::unique_ptr<T[]> values(new T[count]);
  for (std::size_t i = 0; i < count; ++i) {
    if constexpr (std::is_integral_v<T>)
      values[i] = static_cast<T>(literal.integers[i]);
    else
      values[i] = encode(literal.reals[i], T{});
  }
  return from_span(std::span<const T>(values.get(), count), literal.type.shape);
}
inline Tensor tensor_of(const Literal& literal) {
  switch (literal.type.dtype) {
#define WEFT_DTYPE(name, text, bits, packing, kind, computed, accumulated, exponent, type) \
  case DType::name:                                                                        \
    return tensor_as<type>(literal);
#include "weft/dtypes.def"
#undef WEFT_DTYPE
  }
  return {};
}

// The function as a graph over inputs of these types.
inline Graph graph_of(const Function& function, std::span<const Type> inputs) {
  Trace trace;
  trace.id = new_trace_id();
  TraceScope scope(trace);
  for (std::size_t i = 0; i < inputs.size(); ++i)
    trace.inputs.push_back(record(Op::input, {}, Parameter{static_cast<std::int64_t>(i)}, inputs[i], {}));
  Tensor output = function(trace.inputs);
  Graph graph = make_graph(trace.inputs, {output}, trace.effects);
  verify(graph);
  return graph;
}

inline Literal reference_of(const Function& function, std::span<const Literal> inputs) {
  std::vector<Type> types;
  for (const Literal& input : inputs) types.push_back(input.type);
  return interpret(graph_of(function, types), inputs, {})[0];
}

inline Literal eager_of(const Function& function, std::span<const Literal> inputs) {
  std::vector<Tensor> tensors;
  for (const Literal& input : inputs) tensors.push_back(tensor_of(input));
  return literal_of(function(tensors));
}

// The distance from a number to the next larger one in size.
inline double ulp(DType dtype, double x) {
  const int digits = significand(dtype), least = 3 - digits - (1 << (info(dtype).exponent - 1));
  if (x == 0 || !std::isfinite(x)) return std::ldexp(1.0, least);
  return std::ldexp(1.0, std::max(std::ilogb(x) - digits + 1, least));
}

// How far an element may be from the reference: in ULPs of the result, where zeros must have the same sign, or
// absolutely.
struct Bound {
  double ulps = 0;
  std::vector<double> absolute = {};
  double least = 0;  // allowed absolutely, where that is more
};

inline std::string difference(const Literal& got, const Literal& expected, const Bound& bound) {
  auto list = [](auto... parts) { return (std::string() + ... + (std::to_string(parts) + " ")); };
  if (!got.type.shape.same(expected.type.shape) || got.type.dtype != expected.type.dtype)
    return "type " + to_string(got.type) + ", expected " + to_string(expected.type);
  if (got.integers.size() != expected.integers.size() || got.reals.size() != expected.reals.size()) return "count";
  for (std::size_t i = 0; i < got.integers.size(); ++i)
    if (got.integers[i] != expected.integers[i])
      return "element " + list(i) + "is " + list(got.integers[i]) + "expected " + list(expected.integers[i]);
  for (std::size_t i = 0; i < got.reals.size(); ++i) {
    double x = got.reals[i], y = expected.reals[i];
    double allowed =
        bound.absolute.empty() ? std::max(bound.least, bound.ulps * ulp(got.type.dtype, y)) : bound.absolute[i];
    bool other_zero = x == 0 && y == 0 && bound.absolute.empty() && std::signbit(x) != std::signbit(y);
    bool same = (x != x && y != y) || x == y;
    bool near = std::isfinite(x) && std::isfinite(y) && std::fabs(x - y) <= allowed && allowed > 0;
    char numbers[120];
    std::snprintf(numbers, sizeof numbers, "is %.17g, expected %.17g, may differ by %.3g", x, y, allowed);
    if (other_zero || (!same && !near)) return "element " + list(i) + numbers;
  }
  return {};
}

inline void check(const Function& function, std::span<const Literal> inputs, const Bound& bound = {}) {
  std::string wrong = difference(eager_of(function, inputs), reference_of(function, inputs), bound);
  CHECK_MESSAGE(wrong.empty(), wrong);
}

// ---- inputs ---------------------------------------------------------------------------------------------------------

// Values that break things, then ordinary ones of several magnitudes; the same for the same seed.
class Values {
 public:
  explicit Values(unsigned seed) : random_(seed) {}
  Literal make(DType dtype, const Shape& shape, bool specials = true) {
    Literal literal{Type{dtype, false, {}, shape}};
    for (std::int64_t i = 0, n = shape.element_count().constant(); i < n; ++i) {
      if (is_floating(dtype))
        literal.reals.push_back(real(dtype, specials));
      else
        literal.integers.push_back(integer(dtype, specials));
    }
    return literal;
  }
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }

 private:
  double real(DType dtype, bool specials) {
    static const double edges[] = {0.0,       -0.0, 1.0,   -1.0,   0.5,  2.0,   -2.5, 3.0,   INFINITY,
                                   -INFINITY, NAN,  1e-45, -1e-40, 1e38, -3e38, 1e-8, 88.72, -87.4};
    double x;
    if (specials && below(4) == 0)
      x = edges[below(std::size(edges))];
    else
      x = std::ldexp(static_cast<double>(below(1 << 20)) / (1 << 19) - 1,
                     static_cast<int>(specials ? below(12) - 6 : 0));
    return round_to(dtype, x);
  }
  std::int64_t integer(DType dtype, bool specials) {
    if (dtype == DType::boolean) return below(2);
    const auto [least, greatest] = integer_range(dtype);
    if (greatest <= UINT16_MAX) {
      const std::int64_t any = least + below(greatest - least + 1);
      return specials && below(3) == 0 ? std::clamp<std::int64_t>(any, least, least + 3) : any;
    }
    if (dtype == DType::u32) return specials && below(3) == 0 ? greatest - below(3) : below(200);
    static const std::int64_t edges[] = {0, 1, -1, 2, -7, INT32_MAX, INT32_MIN};
    std::int64_t x = specials && below(3) == 0 ? edges[below(std::size(edges))] : below(200) - 100;
    if (specials && dtype == DType::i64 && below(6) == 0) x = below(2) ? INT64_MIN : INT64_MAX;
    return x;
  }
  std::mt19937 random_;
};

// Ways in which an operand of sizes [rows, columns] can lie in memory: the shape of its base, and the view of it.
struct Placement {
  const char* name;
  Shape (*base)(std::int64_t rows, std::int64_t columns);
  Tensor (*view)(const Tensor& base, std::int64_t rows, std::int64_t columns);
};
inline constexpr Placement placements[] = {
    {"contiguous", [](std::int64_t r, std::int64_t c) { return Shape::of(r, c); },
     [](const Tensor& x, std::int64_t, std::int64_t) { return x; }},
    {"transposed", [](std::int64_t r, std::int64_t c) { return Shape::of(c, r); },
     [](const Tensor& x, std::int64_t, std::int64_t) { return transpose(x); }},
    {"sliced", [](std::int64_t r, std::int64_t c) { return Shape::of(r + 2, 2 * c + 1); },
     [](const Tensor& x, std::int64_t r, std::int64_t c) { return slice(slice(x, 0, 1, r + 1), 1, 1, 2 * c + 1, 2); }},
    {"reversed", [](std::int64_t r, std::int64_t c) { return Shape::of(r, c); },
     [](const Tensor& x, std::int64_t, std::int64_t) { return flip(flip(x, 1), 0); }},
    {"one row repeated", [](std::int64_t, std::int64_t c) { return Shape::of(1, c); },
     [](const Tensor& x, std::int64_t r, std::int64_t c) {
       return expand(x, {r, c});
     }},
    {"one column repeated", [](std::int64_t r, std::int64_t) { return Shape::of(r, 1); },
     [](const Tensor& x, std::int64_t r, std::int64_t c) {
       return expand(x, {r, c});
     }},
    {"one value repeated", [](std::int64_t, std::int64_t) { return Shape(); },
     [](const Tensor& x, std::int64_t r, std::int64_t c) {
       return expand(x, {r, c});
     }},
};

}  // namespace weft::test
