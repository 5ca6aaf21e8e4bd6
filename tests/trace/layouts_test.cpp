// Every pointwise primitive and reduction of weft/ops.def on operands that lie transposed, sliced, reversed and
// repeated: eager = compiled = reference, for shapes around the lanes, size 1 and size 0, compiled for one shape and
// for all.
#include <cmath>

#include "base/options.hpp"
#include "graph/table.hpp"
#include "tensor/record.hpp"
#include "tests/trace/support.hpp"
#include "weft/random.hpp"

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

bool is_pointwise(Op op, bool floating) {
  const OpInfo& row = info(op);
  if (row.kind != OpKind::pointwise) return false;
  bool bits = row.dtypes == DTypeClass::bits,
       floats = row.dtypes == DTypeClass::floating || row.dtypes == DTypeClass::predicate;
  return floating ? !bits : !floats;
}

// The results of all rows that take the dtype, with operands at placements `first`, `first + 1`, ...
template <int first>
std::vector<Tensor> pointwise_of(const Tensor& base, const Tensor& like) {
  std::vector<Tensor> results;
  Tensor x[3];
  for (std::size_t i = 0; i < 3; ++i)
    x[i] = placements[(first + i) % std::size(placements)].view(base, like) + static_cast<int>(i);
  for (int number = 0; number < op_count; ++number) {
    Op op = static_cast<Op>(number);
    if (!is_pointwise(op, is_floating(like.dtype()))) continue;
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

// Sums move by their order: `relative` is to the largest number of the result.
void check_close(const Tensor& got, const Tensor& expected, double relative) {
  REQUIRE(got.dtype() == expected.dtype());
  REQUIRE(got.shape().same(expected.shape()));
  if (got.element_count().same(Dim(0))) return;
  Tensor a = cast(got, DType::f64), b = cast(expected, DType::f64);
  View<const double> x = a.data<double>(), y = b.data<double>();
  double largest = 0;
  for (double value : y)
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  for (std::size_t i = 0; i < x.size(); ++i) {
    bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    CHECK_MESSAGE((same || std::fabs(x[i] - y[i]) <= relative * largest), "element ", i, " is ", x[i], ", not ", y[i]);
  }
}

template <class F>
void check_all(F f, std::initializer_list<Extent> extents, DType dtype, bool dynamic, double relative) {
  CompileOptions options{.dynamic = dynamic, .check = Check::never, .on_compile_error = OnFailure::raise};
  auto compiled = compile(f, options);
  options.backend = Backend::reference;
  auto reference = compile(f, options);
  Generator rng(3);
  for (auto [rows, columns] : extents) {
    Tensor base = cast(normal({rows + 2, 2 * columns + 1}, 0.4, 2, rng), dtype),
           like = cast(normal({rows, columns}, 0.4, 2, rng), dtype);
    std::vector<Tensor> expected = reference(base, like), found = compiled(base, like), eager = f(base, like);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      INFO("result ", i, " of ", rows, " x ", columns, std::string(dynamic ? ", symbolic" : ""));
      check_close(found[i], expected[i], relative);
      check_close(eager[i], expected[i], relative);
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
  // The lanes' functions are within 4 ULP of f32, sums within a rounding each of at most 130 steps.
  constexpr double functions = 5e-7, sums = 130 * 6e-8;
  (
      [&] {
        CAPTURE(std::string(placements[first].name));
        check_all(pointwise_of<first>, {{3, 17}}, DType::f32, false, functions);
        check_all(pointwise_of<first>, {{3, 17}, {2, 5}, {64, 33}}, DType::f32, true, functions);
        check_all(pointwise_of<first>, {{5, 19}}, DType::i64, false, 0);
        check_all(reductions_of<first>, {{3, 17}}, DType::f32, false, sums);
        check_all(reductions_of<first>, {{3, 17}, {2, 5}, {64, 33}}, DType::f32, true, sums);
      }(),
      ...);
}

}  // namespace

TEST_CASE("pointwise primitives and reductions at every placement, static and symbolic") {
  check_placements(std::make_integer_sequence<int, static_cast<int>(std::size(placements))>());
}

TEST_CASE("pointwise primitives and reductions of one element, of one row, of nothing") {
  FastCompiler fast;
  for (auto f : {pointwise_of<1>, pointwise_of<2>, reductions_of<0>, reductions_of<4>})
    check_all(f, {{1, 1}, {1, 16}, {0, 5}, {5, 0}}, DType::f32, false, 1e-5);
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
  for (std::size_t i = 0; i < got.size(); ++i) check_close(got[i], expected[i], 0);  // sums of small integers: exact

  // Where it begins is a size of the call.
  auto at_size = [](const Tensor& x) {
    const Dim n = x.size(0);
    return matmul(x, transpose(slice(select(constant(std::span(table), {6, 8, 2}), 2, 1), 0, n, n + 3)));
  };
  auto g = compile(at_size, {.dynamic = true});
  for (std::int64_t n : {2, 3}) {
    const Tensor y = constant(std::span(table).first(static_cast<std::size_t>(8 * n)), {n, 8});
    check_close(g(y), at_size(y), 0);
  }
}
