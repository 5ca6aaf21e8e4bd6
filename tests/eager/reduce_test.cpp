// Reductions and contractions: every dtype, which axes, where the operand lies, and lengths around vectors and chunks.
#include <cmath>

#include "tests/eager/check.hpp"

using namespace weft;
using namespace weft::test;

namespace {

Reduce axes_of(std::initializer_list<int> axes) {
  Reduce reduce;
  for (int axis : axes) reduce.axes.insert(axis);
  return reduce;
}

struct Reduction {
  Op op;
  std::string name;
  bool orders;  // gives an element, or its position: exact
};
const Reduction reductions[] = {{Op::sum, "sum", false},
                                {Op::prod, "prod", false},
                                {Op::amax, "amax", true},
                                {Op::amin, "amin", true},
                                {Op::argmax, "argmax", true}};

// At most 64 vectors of a chunk and 64 rows follow each other in one accumulator, then 2 + 4 steps fold it; what
// remains is double. Each step rounds once: half an ULP of a partial sum, which the sum of sizes bounds.
constexpr double roundings = 64 + 2 + 4 + 1;

Bound bound_of(const Reduction& reduction, const Reduce& axes, const Function& view, const Literal& input,
               const Literal& expected) {
  DType dtype = expected.type.dtype;
  if (reduction.orders || !is_floating(dtype)) return {};
  double relative = ulp(dtype == DType::f64 ? DType::f64 : DType::f32, 1.0) / 2 * roundings;
  // The reference's product of f64 rounds once an element, too.
  if (reduction.op == Op::prod && dtype == DType::f64) {
    Function counts = [&](std::span<const Tensor> x) {
      const Tensor terms = view(x);
      return record(Op::sum, {cast(terms == terms, DType::f64)}, axes, {}, {});
    };
    for (double count : reference_of(counts, std::span(&input, 1)).reals)
      relative = std::max(relative, (roundings + count) * ulp(DType::f64, 1.0) / 2);
  }
  Bound bound;
  if (reduction.op == Op::sum) {
    Literal wide = input;
    wide.type.dtype = DType::f64;
    Function sizes = [&](std::span<const Tensor> x) {
      return record(Op::sum, {record(Op::abs, {view(x)}, {}, {}, {})}, axes, {}, {});
    };
    bound.absolute = reference_of(sizes, std::span(&wide, 1)).reals;
  }
  for (std::size_t i = 0; i < expected.reals.size(); ++i) {
    if (reduction.op == Op::prod) bound.absolute.push_back(std::fabs(expected.reals[i]));
    // A product may have lost digits to denormals on the way; the last rounding is to the dtype.
    double denormal = reduction.op == Op::prod ? roundings * ulp(dtype == DType::f64 ? dtype : DType::f32, 0) : 0;
    bound.absolute[i] =
        bound.absolute[i] * relative + ulp(dtype, expected.reals[i]) / (info(dtype).bits == 16 ? 1 : 2) + denormal;
  }
  return bound;
}

void check_reduction(const Reduction& reduction, const Reduce& axes, const Function& view, const Literal& input) {
  Function function = [&](std::span<const Tensor> x) { return record(reduction.op, {view(x)}, axes, {}, {}); };
  Literal expected = reference_of(function, std::span(&input, 1));
  Bound bound = bound_of(reduction, axes, view, input, expected);
  std::string wrong = difference(eager_of(function, std::span(&input, 1)), expected, bound);
  CHECK_MESSAGE(wrong.empty(), wrong);
}

}  // namespace

TEST_CASE("reductions: rows and columns of every dtype at every placement") {
  unsigned seed = 100;
  for (const Reduction& reduction : reductions)
    for (DType dtype : all_dtypes) {
      if (dtype == DType::boolean || only_holds(dtype)) continue;
      for (const Placement& place : placements)
        for (auto [rows, columns] : {std::pair<std::int64_t, std::int64_t>{1, 1}, {3, 17}, {70, 33}, {5, 130}})
          for (auto axes : {std::initializer_list<int>{0}, {1}, {0, 1}}) {
            Values values(++seed);
            Literal input = values.make(dtype, place.base(rows, columns), reduction.orders || !is_floating(dtype));
            INFO(reduction.name, " of ", text(dtype), "[", rows, ",", columns, "] ", std::string(place.name), ", seed ",
                 seed);
            check_reduction(
                reduction, axes_of(axes),
                [&, rows = rows, columns = columns](std::span<const Tensor> x) {
                  return place.view(x[0], rows, columns);
                },
                input);
          }
    }
}

TEST_CASE("reductions: lengths around vectors, groups of vectors and chunks") {
  Values values(200);
  for (std::int64_t length : {0, 1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 1000, 4095, 4096, 4097, 5000, 9000})
    for (const Reduction& reduction : reductions)
      for (DType dtype : {DType::f32, DType::f64, DType::i32}) {
        if (length == 0 && reduction.orders) continue;
        for (bool rows : {true, false}) {
          Literal input = values.make(dtype, rows ? Shape::of(3, length) : Shape::of(length, 3), false);
          INFO(reduction.name, " of ", length, " ", text(dtype), rows ? " in rows" : " in columns");
          check_reduction(
              reduction, axes_of({rows ? 1 : 0}), [](std::span<const Tensor> x) { return x[0]; }, input);
        }
      }
}

TEST_CASE("reductions: any set of axes, also permuted") {
  Values values(300);
  for (const Reduction& reduction : reductions)
    for (int set = 1; set < 16; ++set) {
      const Reduce axes{{static_cast<std::uint8_t>(set)}};
      for (bool permuted : {false, true}) {
        Literal input = values.make(DType::f32, Shape::of(3, 4, 5, 6), reduction.orders);
        INFO(reduction.name, ", set ", set, permuted ? ", permuted" : "");
        check_reduction(
            reduction, axes,
            [&](std::span<const Tensor> x) {
              return permuted ? permute(x[0], {2, 0, 3, 1}) : x[0];
            },
            input);
      }
    }
}

TEST_CASE("reductions: many short rows and columns have the bits of few") {
  Values values(400);
  for (const Reduction& reduction : reductions)
    for (const std::int64_t length : {1, 2, 3, 5, 7, 8, 9, 16})
      for (const DType dtype : {DType::f32, DType::f16, DType::i16})
        for (const bool rows : {true, false}) {
          if (reduction.op == Op::argmax) continue;
          INFO(reduction.name, " of ", length, " ", text(dtype), rows ? " in rows" : " in columns");
          // Strided: every second element of an axis of twice the length.
          const Literal input = values.make(dtype, Shape::of(130, 2 * length, 12), false);
          const Tensor every = slice(tensor_of(input), 1, 0, slice_end, 2);
          const Tensor x = rows ? permute(every, {0, 2, 1}) : every;
          const auto of = [&](const Tensor& some) {
            const Tensor result = record(reduction.op, {some}, axes_of({rows ? 2 : 1}), {}, {});
            return literal_of(result);
          };
          const Literal all = of(x);
          const std::size_t row = 12;
          for (const std::int64_t i : {0, 77, 129}) {
            const Literal one = of(slice(x, 0, i, i + 1));
            for (std::size_t j = 0; j < row; ++j) {
              const std::size_t at = static_cast<std::size_t>(i) * row + j;
              if (is_floating(dtype))
                CHECK((all.reals[at] == one.reals[j] && std::signbit(all.reals[at]) == std::signbit(one.reals[j])) ==
                      (one.reals[j] == one.reals[j]));
              else
                CHECK(all.integers[at] == one.integers[j]);
            }
          }
        }
}

TEST_CASE("reductions over nothing: sums are 0, products 1, and a greatest element is refused") {
  Tensor empty = zeros({3, 0});
  CHECK(sum(empty).item() == 0);
  CHECK(prod(empty).item() == 1);
  CHECK(literal_of(sum(zeros({0, 3}), 0)).reals == std::vector<double>{0, 0, 0});
  CHECK_THROWS_AS(amax(empty, 1), Error);
  CHECK(amax(empty, 0).shape().rank() == 1);
}

TEST_CASE("infinities and NaN reach sums and products") {
  Tensor x = from_list<float>({1, INFINITY, 2, 3, -INFINITY, INFINITY, 0, NAN, 5, 0, 1, INFINITY}, {4, 3});
  for (int axis : {0, 1})
    for (Op op : {Op::sum, Op::prod}) {
      Literal input = literal_of(x);
      check([&](std::span<const Tensor> v) { return record(op, {v[0]}, axes_of({axis}), {}, {}); },
            std::span(&input, 1));
    }
}

TEST_CASE("reductions do not depend on the number of threads: a long row equals its chunks, joined") {
  Values values(400);
  Literal input = values.make(DType::f32, Shape::of(300000), false);
  Tensor x = tensor_of(input);
  double total = 0;
  for (std::int64_t begin = 0; begin < 300000; begin += 4096)
    total += static_cast<double>(sum(slice(x, 0, begin, begin + 4096)).item<float>());
  CHECK(sum(x).item<float>() == static_cast<float>(total));
}

TEST_CASE("a sum of a million floats keeps its digits") {
  Tensor x = full({1 << 20}, 0.1);
  CHECK(std::fabs(sum(x).item() - 0.1 * (1 << 20)) < 0.1);
  Tensor columns = full({1 << 18, 3}, 0.1);
  CHECK(std::fabs(element<float>(sum(columns, 0), 1) - 0.1 * (1 << 18)) < 0.02);
}

TEST_CASE("matmul: every dtype, transposed and strided operands, batches, odd and empty sizes") {
  Values values(500);
  for (DType dtype : all_dtypes) {
    if (dtype == DType::boolean || only_holds(dtype)) continue;
    for (auto [m, n, k] : {std::array<std::int64_t, 3>{1, 1, 1},
                           {3, 5, 7},
                           {17, 33, 65},
                           {1, 40, 30},
                           {40, 1, 30},
                           {4, 4, 0},
                           {0, 4, 3}})
      for (int left = 0; left < 7; ++left) {
        const Placement &a = placements[left], &b = placements[(3 * left + 1) % 7];
        std::vector<Literal> inputs = {values.make(dtype, a.base(m, k), false),
                                       values.make(dtype, b.base(k, n), false)};
        auto product = [&, m = m, n = n, k = k](bool sizes) {
          return [&, sizes, m, n, k](std::span<const Tensor> x) {
            Tensor p = a.view(x[0], m, k), q = b.view(x[1], k, n);
            return sizes ? matmul(abs(p), abs(q)) : matmul(p, q);
          };
        };
        Bound bound;
        if (is_floating(dtype)) {
          // Any order of k products and sums; each rounds once.
          std::vector<Literal> wide = inputs;
          for (Literal& input : wide) input.type.dtype = DType::f64;
          bound.absolute = reference_of(product(true), wide).reals;
          double half_ulp = ulp(dtype == DType::f64 ? dtype : DType::f32, 1.0) / 2;
          for (double& x : bound.absolute)
            x = x * half_ulp * static_cast<double>(k + 1) + (info(dtype).bits == 16 ? ulp(dtype, x) : 0) + 1e-300;
        }
        INFO("matmul ", text(dtype), " ", m, "x", n, "x", k, " ", std::string(a.name), " x ", std::string(b.name));
        check(product(false), inputs, bound);
      }
  }
  for (DType dtype : {DType::f64, DType::i64}) {
    std::vector<Literal> inputs = {values.make(dtype, Shape::of(2, 3, 4, 5), false),
                                   values.make(dtype, Shape::of(3, 5, 2), false)};
    Bound bound;
    if (dtype == DType::f64) bound.absolute.assign(48, 1e-13);
    check([](std::span<const Tensor> x) { return matmul(x[0], x[1]); }, inputs, bound);
    check(
        [](std::span<const Tensor> x) {
          return matmul(permute(x[0], {1, 0, 2, 3}), reshape(x[1], {3, 1, 5, 2}));
        },
        inputs, bound);
  }
}

TEST_CASE("the variance of too few values is NaN, or infinite") {
  CHECK(std::isnan(var(zeros({0})).item()));
  CHECK(std::isnan(var(ones({1})).item()));
  CHECK(var(arange(3, {DType::f32}), {}, 5).item() == INFINITY);
}
