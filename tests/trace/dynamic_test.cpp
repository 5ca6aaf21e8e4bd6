// Symbolic sizes end to end: one specialization serves every size of 2 and more, with the numbers that eager gives, for
// pointwise functions, reductions of rows and columns, products, views and a training step.
#include <cmath>

#include "tests/trace/support.hpp"
#include "weft/expr.hpp"
#include "weft/grad.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"
#include "weft/statistics.hpp"

using namespace weft;
using namespace trace_test;

namespace {

struct Extent {
  std::int64_t rows, columns;
};
constexpr Extent shapes[] = {{3, 17}, {2, 5}, {64, 33}, {17, 16}, {5, 130}, {70, 3}};

// Holds a function of a matrix against itself run eagerly, at all shapes; `bound` is relative to the largest number.
template <class F>
void check_all_shapes(F f, double bound) {
  auto symbolic = compile(f, {.dynamic = true, .on_compile_error = OnFailure::raise});
  Generator rng(5);
  for (auto [rows, columns] : shapes) {
    CAPTURE(rows);
    CAPTURE(columns);
    Tensor x = normal({rows, columns}, 0, 1, rng);
    Tensor expected = f(x), found = symbolic(x);
    REQUIRE(found.shape().same(expected.shape()));
    double largest = amax(abs(expected)).item();
    CHECK(amax(abs(found - expected)).item() <= bound * largest);
  }
  CHECK(specialization_count(symbolic) == 1);
  CHECK(last_recompile_reason(symbolic).empty());
}

}  // namespace

TEST_CASE("symbolic sizes: pointwise, at sizes around the lanes") {
  check_all_shapes([](const Tensor& x) { return tanh(x * 2 + 1) - select(x, 0, 0); }, 0);
}

TEST_CASE("symbolic sizes: reductions of rows, of columns and of all") {
  check_all_shapes([](const Tensor& x) { return softmax(x); }, 1e-6);
  check_all_shapes([](const Tensor& x) { return (x - mean(x, 1, true)) * rsqrt(var(x, 1, 0, true) + 1e-5); }, 1e-6);
  check_all_shapes([](const Tensor& x) { return sum(x * x, 0) / 3; }, 1e-6);
  check_all_shapes([](const Tensor& x) { return mean(x) + amax(x); }, 1e-6);
}

TEST_CASE("symbolic sizes: products, transposed and with what is fused around them") {
  check_all_shapes([](const Tensor& x) { return relu(matmul(x, transpose(x))) + 1; }, 1e-5);
  check_all_shapes([](const Tensor& x) { return matmul(transpose(x * 2), x); }, 1e-5);
}

TEST_CASE("symbolic sizes: views, padding, joining and rows by index") {
  check_all_shapes([](const Tensor& x) { return concat({flip(x, 0), slice(x, 0, 1), slice(x, 0, 0, -1)}) * 2; }, 0);
  check_all_shapes([](const Tensor& x) { return pad(reshape(transpose(x), {-1}), 0, 1, 2) + 1; }, 0);
  check_all_shapes(
      [](const Tensor& x) {
        return gather(x, argmax(x, 0) * 0 + 1) - expand(slice(x, 0, 1, 2), {x.size(1), x.size(1)});
      },
      0);
}

TEST_CASE("symbolic sizes: a training step takes batches of any size") {
  auto body = [](nn::Linear& layer, const Tensor& x, const Tensor& y) {
    auto [loss, slopes] = value_and_grad([&](const nn::Linear& l) { return nn::cross_entropy(l(x), y); }, layer);
    layer.weight = layer.weight - slopes.weight * 0.5;
    layer.bias = layer.bias - slopes.bias * 0.5;
    return loss;
  };
  auto step = compile(body, {.dynamic = true, .on_compile_error = OnFailure::raise});
  seed(2);
  nn::Linear compiled(6, 4), eager = compiled;
  Generator rng(9);
  for (std::int64_t rows : {32, 7, 2, 100}) {
    Tensor x = normal({rows, 6}, 0, 1, rng), y = randint({rows}, 0, 4, rng);
    double found = step(compiled, x, y).item(), expected = body(eager, x, y).item();
    CAPTURE(rows);
    CHECK(std::abs(found - expected) <= 1e-5 * std::abs(expected));
    CHECK(amax(abs(compiled.weight - eager.weight)).item() <= 1e-5);
  }
  CHECK(specialization_count(step) == 1);
}

TEST_CASE("integer products of every third column: a size of 1 that is repeated guards nothing") {
  const auto gram = [](const Tensor& x) {
    Tensor v = slice(x, 1, 2, slice_end, 3);
    return matmul(transpose(v), v);
  };
  auto f = compile(gram, {.dynamic = true});
  for (std::int64_t columns : {17, 20}) {
    const Tensor x = reshape(arange(9 * columns), {9, columns});
    CHECK(text_of(f(x)) == text_of(gram(x)));
  }
  CHECK(specialization_count(f) == 1);
}

namespace {
// Compiled with symbolic sizes, at each number of rows in turn: the values, shapes and the choices of the function
// itself.
template <class F>
void check_rows(F function, std::initializer_list<std::int64_t> all_rows) {
  auto f = compile(function, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const std::int64_t rows : all_rows) {
    CAPTURE(rows);
    const Tensor x = reshape(arange(rows * 3, {DType::f32}), {rows, 3});
    CHECK(text_of(f(x)) == text_of(function(x)));
  }
}
}  // namespace

// Three and more uses, whose gradients are rounded as they are added up.
TEST_CASE("symbolic sizes: a value of which a size is computed to be 1 has the gradient that eager has") {
  const auto slope = [](const Tensor& x) {
    const auto loss = [](const Tensor& x) {
      const Tensor v = slice(x, 0, 1, 3, 3), w = pad(slice(x, 0, 1, 2, 3), 0, 0, x.size(0) - 4);
      Tensor all = mean(v) + sum(v - v * 0.3) + sum(log1p(v)) + sum(x * v) + amax(v) + sum(concat({v, v}, 1));
      return all + sum(exp(w)) + prod(w, 0).size(0) * mean(w) + sum(w * w) + sum(sin(w) / w);
    };
    return grad([&](const Tensor& x) { return sum(square(grad(loss, x))) + loss(x); }, x);
  };
  const auto f = compile(slope, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const int seed : {1, 2, 3, 4}) {
    Generator rng(seed);
    const Tensor x = cast(uniform({4, 37}, 0.1, 2, rng), DType::bf16);
    CHECK(text_of(f(x)) == text_of(slope(x)));
  }
}

TEST_CASE("symbolic sizes: a reduction beside an axis whose size is computed to be 1 has the bits that eager has") {
  const auto sums = [](const Tensor& x) {
    const Tensor y = slice(x, 2, -1, slice_end, -2);
    return concat({flatten(mean(y, 1), 0, -1), flatten(prod(y, 1), 0, -1), flatten(softmax(y, 1), 0, -1)}, 0);
  };
  const auto f = compile(sums, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const int columns : {2, 5, 2, 7, 3}) {
    Generator rng(columns);
    const Tensor x = uniform({2, 37, columns}, 0.5, 1.5, rng);
    CHECK(text_of(f(x)) == text_of(sums(x)));
  }
  CHECK(specialization_count(f) == 2);
}

TEST_CASE("symbolic sizes: what is computed from a size may be 1, or negative") {
  check_rows([](const Tensor& x) { return squeeze(slice(x, 0, 1), 0); }, {2, 5, 3, 2});
  check_rows([](const Tensor& x) { return slice(x, 0, 1) + x; }, {2});
  check_rows([](const Tensor& x) { return expand(slice(x, 0, 1), {x.size(0), 3}) + 1; }, {2});
  check_rows([](const Tensor& x) { return where(slice(x, 0, 1) > 1, x, slice(x, 0, 0, -1)) * 2; }, {2});
  check_rows(
      [](const Tensor& x) {
        const Tensor batches = reshape(slice(x, 0, 1), {-1, 1, 3});
        return matmul(batches, expand(reshape(x, {-1, 3, 1}), {x.size(0), 3, 2}));
      },
      {2});
  static constexpr auto larger = elementwise([](auto a, auto b) { return select(a > b, a, b * 2.0); });
  check_rows([](const Tensor& x) { return larger(slice(x, 0, 1), x); }, {2});
  check_rows(
      [](const Tensor& x) {
        const Dim windows = (x.size(0) - 5) / 2;
        return windows < 0 ? x + 1 : x * cast(full({}, At(windows)), DType::f32);
      },
      {3, 9, 4, 5, 12, 2});
  check_rows([](const Tensor& x) { return -(-x.size(0) / 4) < 1 ? x + 1 : x + 2; }, {3, 4, 9});
}

TEST_CASE("symbolic sizes that are equal and written differently: +=") {
  auto joined = [](const Tensor& x, const Tensor& a, const Tensor& b) {
    Tensor sum = x;
    sum += concat({a, b});
    return sum * 2;
  };
  auto f = compile(joined, {.dynamic = true, .on_compile_error = OnFailure::raise});
  for (const std::int64_t rows : {4, 7}) {
    const Tensor a = arange(rows, {DType::f32}), b = arange(5, {DType::f32}), x = arange(rows + 5, {DType::f32});
    CHECK(text_of(f(x, a, b)) == text_of(joined(x, a, b)));
  }
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("an integer to the power of a size is refused where that is negative, at any size") {
  auto f = compile([](const Tensor& x) { return pow(cast(x, DType::i32) + 1, x.size(0) - 4); }, {.dynamic = true});
  CHECK(text_of(f(ones({8}))) == "16 16 16 16 16 16 16 16");
  CHECK(text_of(f(ones({5}))) == "2 2 2 2 2");
  CHECK(contains(message_of([&] { f(ones({3})); }), "[pow] integers to a negative power"));
}

namespace {
// What the function says of a large x plainly, compiled for it, and compiled for a small x before.
template <class F>
void check_refused(F function, std::int64_t large, const std::string& expected) {
  const Tensor x = ones({large});
  CHECK(contains(message_of([&] { function(x); }), expected));
  for (Backend backend : backends) {
    CAPTURE(backend);
    auto first = compile(function, {.dynamic = true, .backend = backend});
    CHECK(contains(message_of([&] { first(x); }), expected));
    auto later = compile(function, {.dynamic = true, .check = Check::never, .backend = backend});  // guards alone
    CHECK(text_of(later(ones({3}))) == text_of(function(ones({3}))));
    const std::string message = message_of([&] { later(x); });
    CHECK(contains(message, expected));
    CHECK(contains(message, "dynamic_test.cpp:"));
    CHECK(text_of(later(ones({4}))) == text_of(function(ones({4}))));
  }
}
}  // namespace

TEST_CASE("symbolic sizes: what can't be counted is refused as it is eagerly, also where nothing computes it") {
  const std::string elements = "more elements than there can be: f32[";
  const auto view = [](const Tensor& x) {
    const Dim n = x.size(0);
    return slice(reshape(expand(x, {n, n, n, n}), {-1}), 0, -2);
  };
  check_refused(view, 65536, elements);  // 2^64
  check_refused(view, 32768, elements);  // 2^60
  const auto size = [](const Tensor& x) {
    const Dim n = x.size(0);
    return x * reshape(expand(x, {n, n, n, n}), {-1}).size(0);
  };
  check_refused(size, 65536, elements);
  check_refused(
      [](const Tensor& x) {
        const Dim n = x.size(0);
        return slice(reshape(full({n, n, n, n, n}, 1.5), {-1}), 0, -2);
      },
      4096, elements);  // 2^60
}

TEST_CASE("symbolic sizes: a number that is computed from sizes and too large is refused as it is eagerly") {
  const std::string computed = "a size of 2^61 or more can't be computed with";
  const auto product = [](const Tensor& x) {
    const Dim n = x.size(0);
    return x * (n * n * n * n);
  };
  check_refused(product, 65536, computed);
  check_refused([](const Tensor& x) { return x + (Dim(5) - x.size(0) * x.size(0) * x.size(0) * x.size(0)); }, 65536,
                computed);
  check_refused([](const Tensor& x) { return where(x > 0, x, x.size(0) * x.size(0) * (1ll << 40)); }, 65536, computed);
  auto f = compile(product, {.dynamic = true, .check = Check::never});
  const Tensor x = ones({32768});
  CHECK(amax(f(ones({3}))).item() == 81);
  CHECK(amax(f(x)).item() == 0x1p60);
  CHECK(specialization_count(f) == 1);
}

TEST_CASE("symbolic sizes: what the arguments' sizes tell needs no guard, and of several bounds the widest is kept") {
  const auto bounds = [](auto function, const auto&... arguments) {
    std::vector<std::string> lines;
    for (const std::string& line : explain(compile(function, {.dynamic = true}), arguments...).guards)
      if (contains(line, " < ")) lines.push_back(line.substr(0, line.find("  #")));
    return lines;
  };
  using Lines = std::vector<std::string>;
  const Tensor x = ones({5, 8}), w = ones({8, 4});
  CHECK(bounds([](const Tensor& x) { return mean(x * 2) + sum(reshape(x, {-1})) + x.size(0) * 2; }, x) == Lines());
  CHECK(bounds([](const Tensor& x) { return concat({exp(x), ones({1, x.size(1)})}); }, x) == Lines());
  CHECK(bounds([](const Tensor& x, const Tensor& w) { return matmul(x, w); }, x, w) ==
        Lines{"s0*s2 < 288230376151711744"});
  CHECK(bounds(
            [](const Tensor& x) {
              const Dim n = x.size(0), m = x.size(1);
              return sum(expand(x, {n, n, m})) + sum(expand(x, {99, n, n, m})) + sum(expand(x, {7, n, m}));
            },
            x) == Lines{"99*s0*s0*s1 < 288230376151711744"});
}

// gradient's middle part has s1 - 2 columns, which are one at 3 of them, and mode's neighbours 2 - 1 rows.
TEST_CASE("symbolic sizes: sizes that contain themselves by what was decided (s0*s1 - 2*s0 == s0) do not grow") {
  const auto check = [](auto f) {
    auto symbolic = compile(f, {.dynamic = true, .on_compile_error = OnFailure::raise});
    Generator rng(5);
    for (const std::int64_t columns : {7, 3, 4, 3, 12}) {
      CAPTURE(columns);
      const Tensor x = normal({2, columns}, 0, 1, rng);
      const std::vector<Tensor> expected = f(x), found = symbolic(x);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        CHECK(numbers_of(cast(found[i], DType::f32)) == numbers_of(cast(expected[i], DType::f32)));
    }
  };
  check([](const Tensor& x) { return std::vector{gradient(x)[0], mode(x, 0).values}; });
  check([](const Tensor& x) { return std::vector{gradient(x)[0], histogram(x, 3).counts, mode(x, 0).values}; });
  check([](const Tensor& x) {
    return std::vector{gradient(x)[1], mode(x, 0).values, cumulative_trapezoid(x, 1.0, 0), diff(x),
                       nanmedian(x, 1).values};
  });
}
