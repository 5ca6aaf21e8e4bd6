// Scalar expressions: the same values as the functions on tensors, to the last bit; derivatives, several results,
// loops, literals, conditions, layouts, and what they are inside a trace.
#include "weft/expr.hpp"
#include "passes/regions.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "autograd/backward.hpp"
#include "record/elementwise.hpp"
#include "record/record.hpp"
#include "tests/record/expr_kernels.hpp"
#include "weft/grad.hpp"

using namespace weft;

namespace {

// Numbers of every size and sign, and the edges.
template <class T>
std::vector<T> numbers(std::size_t count, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<T> result(count);
  for (T& value : result) value = static_cast<T>(normal(random) * 2);
  const T edges[] = {0, T(-0.0), 1, -1, T(INFINITY), T(-INFINITY), T(NAN), T(1e-30), T(80)};
  for (std::size_t i = 0; i < std::size(edges) && i < count; ++i) result[count - 1 - i] = edges[i];
  return result;
}
template <class T>
Tensor tensor(std::size_t count, unsigned seed = 1) {
  std::vector<T> values = numbers<T>(count, seed);
  return from_span(std::span<const T>(values), {static_cast<std::int64_t>(count)});
}

template <class T>
bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !a.shape().same(b.shape())) return false;
  auto x = a.data<T>(), y = b.data<T>();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (!(x[i] != x[i] && y[i] != y[i]) && std::memcmp(&x[i], &y[i], sizeof(T)) != 0) {
      MESSAGE("element ", i, ": ", x[i], " and ", y[i]);
      return false;
    }
  return true;
}
bool is_elementwise(const Tensor& value) { return value.node()->op == Op::call && value.node()->definition; }

constexpr auto own_mish = elementwise([](auto x) { return x * tanh(log1p(exp(x))); });

constexpr std::size_t sizes[] = {0, 1, 15, 16, 17, 1000, 40000};

}  // namespace

TEST_CASE_TEMPLATE("one pass gives the bits of the functions on tensors", T, float, double) {
  for (std::size_t count : sizes) {
    INFO(count, " elements");
    Tensor x = tensor<T>(count), y = tensor<T>(count, 2);
    Tensor z = own_mish(x);
    CHECK(is_elementwise(z));
    CHECK(same_bits<T>(z, x * tanh(log1p(exp(x)))));
    constexpr auto mixed =
        elementwise([](auto a, auto b) { return sqrt(abs(a)) / (b - 1) + maximum(a, b * 0.1) - erf(-a); });
    CHECK(same_bits<T>(mixed(x, y), sqrt(abs(x)) / (y - 1) + maximum(x, y * 0.1) - erf(-x)));
  }
}

TEST_CASE_TEMPLATE("every row of the table, compiled for each ISA", T, float, double) {
  for (CompiledExpressions list :
       {baseline::compiled_expressions(), avx2::compiled_expressions(), avx512::compiled_expressions()})
    for (std::size_t i = 0; i < list.count; ++i) {
      const ElementwiseDefinition& definition = *list.first[i].definition;
      INFO(std::string(list.first[i].name), ", ISA ", definition.isa);
      if (!definition.typed) continue;  // & | ^ ~ of arguments alone: bools or integers
      for (std::size_t count : {std::size_t{5}, std::size_t{1000}}) {
        std::vector<Tensor> operands;
        std::vector<At> list_of;
        for (int k = 0; k < definition.argument_count; ++k) {
          operands.push_back(tensor<T>(count, static_cast<unsigned>(k)));
          if (!definition.is_number(k)) operands.back() = operands.back() > 0;
        }
        for (const Tensor& operand : operands) list_of.emplace_back(operand);
        std::vector<Tensor> results(static_cast<std::size_t>(definition.result_count));
        detail::apply_elementwise(definition, list_of.data(), results.data());
        CHECK(is_elementwise(results[0]));
        std::vector<Tensor> expected = expand_elementwise(definition, operands, {});
        for (std::size_t r = 0; r < results.size(); ++r) {
          INFO("result ", r);
          if (results[r].dtype() == DType::boolean)
            CHECK(same_bits<bool>(results[r], expected[r]));
          else
            CHECK(same_bits<T>(results[r], expected[r]));
        }
      }
    }
}

TEST_CASE("literals take the dtype of what they meet") {
  constexpr auto tenth = elementwise([](auto x) { return x * 0.1; });
  Tensor x = from_list<float>({3}), wide = from_list<double>({3});
  CHECK(tenth(x).item<float>() == 3 * 0.1f);
  CHECK(tenth(wide).item<double>() == 3 * 0.1);
  CHECK(tenth(from_list<std::int64_t>({3})).dtype() == DType::f32);
  constexpr auto integers = elementwise([](auto x) { return x * 2 + true; });
  CHECK(integers(from_list<std::int64_t>({3})).item<std::int64_t>() == 7);
  constexpr auto constant = elementwise([](auto) { return 2; });
  CHECK(same_bits<float>(constant(tensor<float>(20)), full({20}, 2)));
}

TEST_CASE("operands are promoted and broadcast first") {
  constexpr auto fused = elementwise([](auto a, auto b, auto c) { return a * b + c; });
  Tensor matrix = reshape(tensor<float>(12), {3, 4}), row = tensor<float>(4, 7), wide = tensor<double>(3, 8);
  CHECK(same_bits<float>(fused(matrix, row, 2.5), matrix * row + 2.5));
  CHECK(same_bits<double>(fused(matrix, row, reshape(wide, {3, 1})),
                          cast(matrix, DType::f64) * cast(row, DType::f64) + reshape(wide, {3, 1})));
  CHECK(same_bits<float>(fused(transpose(matrix), reshape(row, {4, 1}), Scalar(2)),
                         transpose(matrix) * reshape(row, {4, 1}) + 2));
  CHECK(same_bits<float>(fused(flip(row, 0), slice(matrix, 1, 0, 4, 1), expand(from_list<float>({1}), {3, 4})),
                         flip(row, 0) * matrix + 1));
  CHECK(fused(cast(matrix, DType::bf16), 2, 1).dtype() == DType::bf16);
  const std::string expected = "[elementwise] shapes do not broadcast: f32[3,4] x f32[3] x i64[], at expr_test.cpp:" +
                               std::to_string(__LINE__ + 1);
  CHECK_THROWS_WITH_AS(fused(matrix, tensor<float>(3), 1), expected.c_str(), Error);
}

TEST_CASE("conditions") {
  constexpr auto choose = elementwise([](auto c, auto a, auto b) { return where(c, a, b); });
  Tensor a = tensor<float>(100, 1), b = tensor<float>(100, 2), c = a < b;
  CHECK(same_bits<float>(choose(c, a, b), where(c, a, b)));
  CHECK(is_elementwise(choose(c, a, b)));
  constexpr auto inside =
      elementwise([](auto x, auto y) { return where(((x > 0) & ~(y > 1)) | isnan(x), x, y) * (x > 0); });
  CHECK(same_bits<float>(inside(a, b), where(((a > 0) & ~(b > 1)) | isnan(a), a, b) * (a > 0)));
  constexpr auto leaky = elementwise([](auto x) { return select(x > 0, x, 0.25 * x) + select(x % 2 < 1, 1, 0); });
  CHECK(same_bits<float>(leaky(a), where(a > 0, a, 0.25 * a) + where(a % 2 < 1, 1, 0)));
  constexpr auto flags = elementwise([](auto x, auto y) { return where(x > 0, x == y, y <= 1); });
  CHECK(same_bits<bool>(flags(a, b), where(a > 0, a == b, b <= 1)));
  constexpr auto logic = elementwise([](auto x, auto y) { return x & ~y; });
  CHECK(same_bits<bool>(logic(c, a > 0), c & ~(a > 0)));
  CHECK(logic(from_list<std::int64_t>({6}), from_list<std::int64_t>({3})).item<std::int64_t>() == 4);
  CHECK_THROWS_AS(choose(a, a, b), Error);
}

TEST_CASE("several results from one node") {
  constexpr auto both = elementwise([](auto x, auto y) { return pack(x + y, x * y, x < y); });
  Tensor x = tensor<float>(1000, 1), y = tensor<float>(1000, 2);
  auto [sum, product, less] = both(x, y);
  CHECK(sum.node() == product.node());
  CHECK(product.output() == 1);
  CHECK(same_bits<float>(sum, x + y));
  CHECK(same_bits<float>(product, x * y));
  CHECK(same_bits<bool>(less, x < y));
  constexpr auto standard = elementwise([](auto a) { return std::tuple(a * 2, a); });
  auto [twice, same] = standard(x);
  CHECK(same_bits<float>(twice, x * 2));
  CHECK(same_bits<float>(same, x));
}

namespace {
std::vector<double> coefficients = {0.5, -1, 0.25, 3};  // not known to the compiler
}

TEST_CASE_TEMPLATE("loops accumulate in a Sym, at compile time and at run time", T, float, double) {
  constexpr auto power = elementwise([](auto x) {
    Sym result = 1;
    for (int i = 0; i < 9; ++i) result *= x;
    return result;
  });
  constexpr auto polynomial = elementwise([](auto x) {
    Sym sum = 0;
    for (double c : coefficients) sum = where(x > 3, sum, sum * x + c) + (x > 0.5);
    return sum;
  });
  for (std::size_t count : sizes) {
    Tensor x = tensor<T>(count), expected = x, horner = zeros_like(x);
    for (int i = 0; i < 8; ++i) expected = expected * x;
    CHECK(same_bits<T>(power(x), expected));
    // The first steps meet literals alone, as in the expression.
    bool first = true;
    for (double c : coefficients) {
      horner = first ? where(x > 3, 0, 0 * x + c) + (x > 0.5) : where(x > 3, horner, horner * x + c) + (x > 0.5);
      first = false;
    }
    CHECK(same_bits<T>(polynomial(x), horner));
    CHECK(is_elementwise(polynomial(x)));
  }
}

TEST_CASE("a loop that is too long is refused") {
  constexpr auto endless = elementwise([](auto x) {
    Sym sum = x;
    for (int i = 0; i < 5000; ++i) sum = sum + x;
    return sum;
  });
  CHECK_THROWS_AS(endless(tensor<float>(3)), Error);
}

namespace {

std::vector<double> central_difference(auto f, std::vector<double> x) {
  std::vector<double> result;
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto at = [&](double step) {
      std::vector<double> moved = x;
      moved[i] += step;
      return sum(f(from_span(std::span<const double>(moved), {static_cast<std::int64_t>(x.size())})))
          .template item<double>();
    };
    result.push_back((at(1e-5) - at(-1e-5)) / 2e-5);
  }
  return result;
}
// First and second derivatives of f over f64 against differences.
void check_gradient(auto f) {
  std::vector<double> values = {0.3, -0.7, 1.9, 0.01, -3.2};
  Tensor x = from_span(std::span<const double>(values), {5});
  Tensor g = grad([&](const Tensor& a) { return sum(f(a)); }, x);
  std::vector<double> expected = central_difference(f, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(g.data<double>()[i] == doctest::Approx(expected[i]).epsilon(1e-6));
  auto first = [&](const Tensor& a) { return grad([&](const Tensor& b) { return sum(f(b)); }, a); };
  Tensor second = grad([&](const Tensor& a) { return sum(first(a)); }, x);
  expected = central_difference(first, values);
  for (std::size_t i = 0; i < values.size(); ++i)
    CHECK(second.data<double>()[i] == doctest::Approx(expected[i]).epsilon(1e-5).scale(1));
}

}  // namespace

TEST_CASE("derivatives against differences, first and second") {
  check_gradient(own_mish);
  check_gradient(elementwise([](auto x) { return where(x > 0, x * x, exp(x)) * 3 - pow(abs(x), 2.5); }));
  check_gradient(elementwise([](auto x) {
    Sym h = x;
    for (int i = 0; i < 4; ++i) h = sin(h) * h + 0.3;  // each used twice: linear only because nothing is copied
    return h;
  }));
  constexpr auto run_time = elementwise([](auto x) {
    Sym sum = 0;
    for (double c : coefficients) sum = sum * x + c;
    return sum;
  });
  check_gradient(run_time);
}

TEST_CASE("derivatives are those of the primitives, to the last bit, for every operand") {
  constexpr auto f =
      elementwise([](auto x, auto y, auto z) { return pack(x * tanh(y) / z, where(x < y, maximum(x, z), y) * x); });
  auto on_tensors = [](Tensor x, Tensor y, Tensor z) {
    return std::tuple(x * tanh(y) / z, where(x < y, maximum(x, z), y) * x);
  };
  std::vector<Tensor> in = {tensor<float>(33, 1), tensor<float>(33, 2), tensor<float>(33, 3)};
  for (int which = 0; which < 3; ++which) {
    INFO("operand ", which);
    auto with = [&](auto f, const Tensor& value) {
      std::vector<Tensor> all = in;
      all[static_cast<std::size_t>(which)] = value;
      auto [p, q] = f(all[0], all[1], all[2]);
      return sum(p * p) + sum(q * 2);
    };
    const Tensor& at = in[static_cast<std::size_t>(which)];
    Tensor one = grad([&](const Tensor& v) { return with(f, v); }, at);
    Tensor other = grad([&](const Tensor& v) { return with(on_tensors, v); }, at);
    CHECK(same_bits<float>(one, other));
  }
  // Only one of the results reaches the loss.
  Tensor one = grad([&](const Tensor& v) { return sum(std::get<1>(f(v, in[1], in[2]))); }, in[0]);
  Tensor other = grad([&](const Tensor& v) { return sum(std::get<1>(on_tensors(v, in[1], in[2]))); }, in[0]);
  CHECK(same_bits<float>(one, other));
  // Through broadcasting and promotion.
  constexpr auto scale = elementwise([](auto a, auto b) { return a * b; });
  Tensor g = grad([&](const Tensor& v) { return sum(scale(tensor<double>(20, 5), v)); }, from_list<float>({2}));
  CHECK(g.dtype() == DType::f32);
  CHECK(g.element_count().same(Dim(1)));
}

TEST_CASE("inside a trace an expression is a call whose body is its primitives, at the user's line") {
  Trace trace;
  trace.id = new_trace_id();
  TraceScope scope(trace);
  Tensor x = record(Op::input, {}, Parameter{}, Type{DType::f32, false, {}, Shape::of(4)}, {});
  Tensor y = own_mish(x);
  int line = __LINE__ - 1;
  Graph graph = make_graph({x}, {y}, {});
  verify(graph);
  CHECK(y.node()->op == Op::call);
  CHECK(structure_text(inline_calls(graph)) ==
        "%0 f32[4] = input(0)\n%1 f32[4] = exp(%0)\n%2 f32[4] = log1p(%1)\n%3 f32[4] = tanh(%2)\n"
        "%4 f32[4] = mul(%0, %3)\nreturn %4\n");
  CHECK(y.node()->loc.line == static_cast<std::uint32_t>(line));
  CHECK(interned_text(y.node()->scope) == "elementwise");
}
