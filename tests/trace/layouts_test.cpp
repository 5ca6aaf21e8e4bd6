// Every pointwise primitive and reduction of weft/ops.def on operands that lie transposed, sliced, reversed and
// repeated: eager = compiled = reference, for shapes around the lanes, size 1 and size 0, compiled for one shape and
// for all.
#include <cmath>
#include <random>

#include "base/options.hpp"
#include "ir/table.hpp"
#include "record/record.hpp"
#include "tests/trace/support.hpp"

using namespace weft;
using namespace trace_test;

namespace {

// Views [rows, columns] of a base [rows + 2, 2 columns + 1]: what `like` [rows, columns] looks like.
struct Placement {
  const char* name;
  Tensor (*view)(const Tensor& base, const Tensor& like);
};
constexpr Placement placements[] = {
    {"contiguous", [](const Tensor&, const Tensor& like) { return like; }},
    {"transposed",
     [](const Tensor&, const Tensor& like) {
       return transpose(reshape(like, {like.size(1), like.size(0)}));
     }},
    {"sliced",
     [](const Tensor& base, const Tensor& like) {
       return slice(slice(base, 0, 1, 1 + like.size(0)), 1, 1, 2 * like.size(1), 2);
     }},
    {"reversed", [](const Tensor&, const Tensor& like) { return flip(flip(like, 1), 0); }},
    {"row repeated",
     [](const Tensor& base, const Tensor& like) {
       return expand(slice(slice(base, 0, 0, 1), 1, 0, like.size(1)), {like.size(0), like.size(1)});
     }},
    {"column repeated",
     [](const Tensor& base, const Tensor& like) {
       return expand(slice(slice(base, 0, 0, like.size(0)), 1, 1, 2), {like.size(0), like.size(1)});
     }},
};

bool takes(const OpInfo& row, DType dtype) {
  if (row.kind != OpKind::pointwise) return false;
  switch (row.dtypes) {
    case DTypeClass::arithmetic: return dtype != DType::boolean;
    case DTypeClass::floating:
    case DTypeClass::predicate: return is_floating(dtype);
    case DTypeClass::bits: return !is_floating(dtype);
    case DTypeClass::integers: return is_integer(dtype);
    default: return true;
  }
}
std::vector<Op> pointwise_ops(DType dtype) {
  std::vector<Op> ops;
  for (int number = 0; number < op_count; ++number)
    if (takes(info(static_cast<Op>(number)), dtype)) ops.push_back(static_cast<Op>(number));
  return ops;
}

// What they give, in that order, of operands at placements `first`, `first + 1`, ...: what lies there, its opposite and
// its double.
template <int first>
std::vector<Tensor> pointwise_of(const Tensor& base, const Tensor& like) {
  Tensor x[3];
  for (std::size_t i = 0; i < 3; ++i) x[i] = placements[(first + i) % std::size(placements)].view(base, like);
  if (like.dtype() == DType::boolean) {
    x[1] = ~x[1];
  } else {
    x[1] = -x[1];
    x[2] = x[2] + x[2];
  }
  std::vector<Tensor> results;
  for (Op op : pointwise_ops(like.dtype())) {
    std::vector<Tensor> operands(x, x + info(op).arity);
    if (info(op).dtypes == DTypeClass::select) operands[0] = x[0] < x[1];
    results.push_back(record(op, operands, {}, {}, {}));
  }
  return results;
}

// Reductions of rows, columns and everything, of a view at placement `first`.
template <int first>
std::vector<Tensor> reductions_of(const Tensor& base, const Tensor& like) {
  std::vector<Tensor> results;
  Tensor x = placements[first].view(base, like);
  for (Axes axes : {Axes(0), Axes(1), Axes()}) {
    results.push_back(sum(x * x, axes));  // of squares: rounding is relative to a sum of sizes
    results.push_back(prod(x * 0.125, axes));
  }
  for (int axis : {0, 1})
    if (!like.size(axis).same(Dim(0))) {
      results.push_back(amax(x, axis));
      results.push_back(amin(x, axis));
      results.push_back(argmax(x, axis));
    }
  return results;
}

struct Extent {
  std::int64_t rows, columns;
};

// How far a number may be off: relative to itself, and absolutely. Zeros must have the same sign.
struct Bound {
  double relative = 0, absolute = 0;
};

template <class T>
bool is_close(T x, T y, Bound bound) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(x) || std::isnan(y)) return std::isnan(x) && std::isnan(y);
    if (x == 0 && y == 0) return std::signbit(x) == std::signbit(y);
    const double distance = std::fabs(double{x} - double{y});
    return x == y || (std::isfinite(y) && distance <= bound.relative * std::fabs(double{y}) + bound.absolute);
  }
  return x == y;
}
template <class T>
void check_numbers(const Tensor& got, const Tensor& expected, Bound bound) {
  View<const T> x = got.data<T>(), y = expected.data<T>();
  for (std::size_t i = 0; i < x.size(); ++i)
    CHECK_MESSAGE(is_close(x[i], y[i], bound), "element ", i, " is ", x[i], ", not ", y[i]);
}
void check_close(const Tensor& got, const Tensor& expected, Bound bound) {
  REQUIRE(got.dtype() == expected.dtype());
  REQUIRE(got.shape().same(expected.shape()));
  switch (got.dtype()) {
    case DType::f32: return check_numbers<float>(got, expected, bound);
    case DType::f64: return check_numbers<double>(got, expected, bound);
    case DType::i64: return check_numbers<std::int64_t>(got, expected, bound);
    default: check_numbers<bool>(got, expected, bound);
  }
}

// The lanes' functions are within 4 ULP; what IEEE rounds correctly, and what moves or compares bits, is exact.
Bound bound_of(Op op, DType dtype) {
  const bool function = op == Op::pow || (info(op).dtypes == DTypeClass::floating && op != Op::div && op != Op::sqrt &&
                                          op != Op::reciprocal);
  if (!function || !is_floating(dtype)) return {};
  // Sums of terms that cancel.
  if (dtype == DType::f64 && (op == Op::lgamma || op == Op::digamma || op == Op::polygamma)) return {0x1p-47, 0x1p-49};
  if (dtype == DType::f64 && (op == Op::tan || op == Op::erfc)) return {6 * 0x1p-52, 0x1p-1074};
  return dtype == DType::f64 ? Bound{4 * 0x1p-52, 0x1p-1074} : Bound{4 * 0x1p-23, 0x1p-149};
}
// Sums move by their order, each of at most 130 steps by a rounding of at most the largest number of the result.
Bound bound_of_sums(const Tensor& expected) {
  double largest = 0;
  if (is_floating(expected.dtype()))
    for (float value : numbers_of(expected)) largest = std::max(largest, std::fabs(double{value}));
  return {0, 130 * 0x1p-24 * largest};
}

// Every fourth number is special where asked: zeros of both signs, infinities, NaN, the ends of f32.
Tensor operand(Sizes sizes, DType dtype, bool specials, std::mt19937& random) {
  constexpr double special[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1e-45, -1e-39, 3e38, 1, -2.5};
  std::vector<double> numbers;
  const Tensor like = zeros(sizes);
  for (std::int64_t i = 0; i < like.element_count().constant(); ++i) {
    const double number = std::normal_distribution<double>(0.4, 2)(random);
    numbers.push_back(specials && random() % 4 == 0 ? special[random() % std::size(special)] : number);
    if (dtype == DType::boolean) numbers.back() = random() % 2;
  }
  return cast(from_span(std::span(numbers), sizes), dtype);
}

enum class Kind { pointwise, reductions };

template <class F>
void check_all(F f, Kind kind, std::initializer_list<Extent> extents, DType dtype, bool dynamic) {
  CompileOptions options{.dynamic = dynamic, .check = Check::never, .on_compile_error = OnFailure::raise};
  auto compiled = compile(f, options);
  options.backend = Backend::reference;
  auto reference = compile(f, options);
  std::mt19937 random(3);
  const bool pointwise = kind == Kind::pointwise;
  const std::vector<Op> ops = pointwise_ops(dtype);
  for (auto [rows, columns] : extents) {
    Tensor base = operand({rows + 2, 2 * columns + 1}, dtype, pointwise, random),
           like = operand({rows, columns}, dtype, pointwise, random);
    std::vector<Tensor> expected = reference(base, like), found = compiled(base, like), eager = f(base, like);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO(std::string(pointwise ? info(ops[i]).name : "result"), " ", i, " of ", rows, " x ", columns, " ",
           std::string(info(dtype).name), std::string(dynamic ? ", symbolic" : ""));
      const Bound bound = pointwise ? bound_of(ops[i], dtype) : bound_of_sums(expected[i]);
      check_close(found[i], expected[i], bound);
      check_close(eager[i], expected[i], bound);
    }
  }
  if (dynamic) CHECK(specialization_count(compiled) == 1);
}

struct FastCompiler {  // many kernels, each run once
  int optimization = options().kernel_optimization;
  FastCompiler() { options().kernel_optimization = 1; }
  ~FastCompiler() { options().kernel_optimization = optimization; }
};

template <int... first>
void check_placements(std::integer_sequence<int, first...>) {
  FastCompiler fast;
  (
      [&] {
        CAPTURE(std::string(placements[first].name));
        check_all(pointwise_of<first>, Kind::pointwise, {{3, 17}}, DType::f32, false);
        check_all(pointwise_of<first>, Kind::pointwise, {{3, 17}, {2, 5}, {64, 33}}, DType::f32, true);
        check_all(pointwise_of<first>, Kind::pointwise, {{3, 17}}, DType::f64, false);
        check_all(pointwise_of<first>, Kind::pointwise, {{5, 19}}, DType::i64, false);
        check_all(pointwise_of<first>, Kind::pointwise, {{5, 19}}, DType::boolean, false);
        check_all(reductions_of<first>, Kind::reductions, {{3, 17}}, DType::f32, false);
        check_all(reductions_of<first>, Kind::reductions, {{3, 17}, {2, 5}, {64, 33}}, DType::f32, true);
      }(),
      ...);
}

}  // namespace

TEST_CASE("pointwise primitives and reductions at every placement, static and symbolic") {
  check_placements(std::make_integer_sequence<int, static_cast<int>(std::size(placements))>());
}

TEST_CASE("pointwise primitives and reductions of one element, of one row, of nothing") {
  FastCompiler fast;
  for (auto f : {pointwise_of<1>, pointwise_of<2>})
    check_all(f, Kind::pointwise, {{1, 1}, {1, 16}, {0, 5}, {5, 0}}, DType::f32, false);
  for (auto f : {reductions_of<0>, reductions_of<4>})
    check_all(f, Kind::reductions, {{1, 1}, {1, 16}, {0, 5}, {5, 0}}, DType::f32, false);
}

namespace {

std::vector<float> small_integers(std::size_t count) {
  std::vector<float> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<float>(i * 7 % 13) - 6;
  return numbers;
}

// With a table [2, 6, 8] that has unit stride along neither axis: every second column, backwards, repeated over a
// batch.
std::vector<Tensor> products(const Tensor& table, const Tensor& x) {
  Tensor odd = slice(table, 2, 1, slice_end, 2), last = select(table, 0, 1);
  return {matmul(x, odd), matmul(x, flip(slice(last, 1, 0, slice_end, 2), 0)), matmul(transpose(odd), x),
          matmul(x, expand(select(odd, 0, 0), {3, 6, 4}))};
}

}  // namespace

TEST_CASE("products of constants that have unit stride along neither axis") {
  static const std::vector<float> table = small_integers(2 * 6 * 8);
  auto f = compile([](const Tensor& x) { return products(constant(std::span(table), {2, 6, 8}), x); });
  const Tensor x = constant(std::span(table).first(36), {6, 6});
  const std::vector<Tensor> expected = products(constant(std::span(table), {2, 6, 8}), x), got = f(x);
  for (std::size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i], {});  // sums of small integers: exact

  // Where it begins is a size of the call.
  auto at_size = [](const Tensor& x) {
    const Dim n = x.size(0);
    return matmul(x, transpose(slice(select(constant(std::span(table), {6, 8, 2}), 2, 1), 0, n, n + 3)));
  };
  auto g = compile(at_size, {.dynamic = true});
  for (std::int64_t n : {2, 3}) {
    const Tensor y = constant(std::span(table).first(static_cast<std::size_t>(8 * n)), {n, 8});
    check_close(g(y), at_size(y), {});
  }
}
