// Roundings to bf16 and f16: a compiled function makes every one that eager makes, or, where it is asked to, those of
// values that are kept or read.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/needs_compiler.hpp"
#include "tests/trace/support.hpp"
#include "weft/nn.hpp"
#include "weft/random.hpp"

using namespace weft;
using namespace weft::test;
using namespace trace_test;

namespace {

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && all((a == b) | (isnan(a) & isnan(b))).item<bool>();
}

// A program of so many operations on 16-bit floats, decided by the seed: pointwise ones, composites, casts there and
// back, comparisons, reductions.
std::vector<Tensor> program(std::int64_t seed, const Tensor& x, const Tensor& y) {
  std::mt19937 bits(static_cast<unsigned>(seed));
  std::vector<Tensor> values = {x, y};
  for (int i = 0; i < 14; ++i) {
    const Tensor a = values[bits() % values.size()], b = values[bits() % values.size()];
    switch (bits() % 14) {
      case 0: values.push_back(a + b); break;
      case 1: values.push_back(a * b); break;
      case 2: values.push_back(a - b * 0.37); break;
      case 3: values.push_back(tanh(a)); break;
      case 4: values.push_back(gelu(a)); break;
      case 5: values.push_back(where(a < b, a, b * 0.5)); break;
      case 6: values.push_back(cast(cast(a, DType::f32) * 1.01 + cast(b, DType::f32), x.dtype())); break;
      case 7: values.push_back(softmax(a, 1)); break;
      case 8: values.push_back(a - mean(b, 1, true)); break;
      case 9: values.push_back(maximum(a, b)); break;
      case 10: values.push_back(sigmoid(a) / (abs(b) + 1)); break;
      case 11: values.push_back(sum(a * b, 1, true) * 0.01 + a); break;
      case 12: values.push_back(relu(a) + cast(a > b, x.dtype())); break;
      default: values.push_back(exp(clamp(a, -2.0, 2.0)) - 1); break;
    }
  }
  values.erase(values.begin(), values.begin() + 9);
  return values;
}

Tensor sample(std::uint64_t seed, DType dtype) {
  Generator generator(seed);
  return cast(normal({7, 33}, 0, 1, generator), dtype).eval();
}

}  // namespace

TEST_CASE("random programs of 16-bit floats have eager's bits under eager_exact" * needs(a_compiler)) {
  auto exact = compile(program, {.recompile_limit = 100, .precision = Precision::eager_exact});
  for (const DType dtype : {DType::bf16, DType::f16})
    for (std::int64_t seed = 0; seed < 12; ++seed) {
      const Tensor x = sample(1, dtype), y = sample(2, dtype);
      const std::vector<Tensor> expected = program(seed, x, y), found = exact(seed, x, y);
      REQUIRE(found.size() == expected.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        CAPTURE(seed);
        CAPTURE(i);
        CHECK(same_bits(found[i], expected[i]));
      }
    }
}

TEST_CASE(
    "under Precision::fused random programs are as near to f64 as eager ones, and kernels say what they leave out" *
    needs(a_compiler)) {
  auto fused = compile(program, {.recompile_limit = 100, .precision = Precision::fused});
  auto exact = compile(program, {.recompile_limit = 100});
  const auto leaves_out = [](const Explanation& explanation) {
    return std::ranges::any_of(explanation.kernels, [](const Explanation::Kernel& kernel) {
      return kernel.source.find("to 16 bits left out") != std::string::npos;
    });
  };
  const Tensor x = sample(1, DType::bf16), y = sample(2, DType::bf16);
  double of_fused = 0, of_eager = 0;
  for (std::int64_t seed = 0; seed < 8; ++seed) {
    const std::vector<Tensor> eager = program(seed, x, y), found = fused(seed, x, y),
                              wide = program(seed, cast(x, DType::f64), cast(y, DType::f64));
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].dtype() == DType::bf16);
      const auto distance = [&](const Tensor& value) {
        return (mean(abs(cast(value, DType::f64) - wide[i])) / (mean(abs(wide[i])) + 1e-3)).item<double>();
      };
      of_fused += distance(found[i]), of_eager += distance(eager[i]);
    }
    CHECK(leaves_out(explain(fused, seed, x, y)));
    CHECK(!leaves_out(explain(exact, seed, x, y)));
  }
  CHECK(of_fused < of_eager);
}

TEST_CASE("a kernel under Precision::fused names the operations whose roundings it leaves out" * needs(a_compiler)) {
  const Tensor x = sample(1, DType::bf16), y = sample(2, DType::bf16);
  const auto text = [&](auto f) {
    const Explanation explanation = explain(compile(f, {.precision = Precision::fused}), x, y);
    REQUIRE(explanation.kernels.size() == 1);
    const std::string& source = explanation.kernels[0].source;
    const std::size_t begin = source.find(" roundings to 16 bits left out");
    REQUIRE(begin != std::string::npos);
    const std::size_t start = source.rfind("// ", begin) + 3;
    return source.substr(start, source.find('\n', start) - start);
  };
  const int line = __LINE__;
  const auto two = [](const Tensor& x, const Tensor& y) {
    const Tensor product = x * y;
    const Tensor sum = product + y;
    return sum * x;
  };
  const auto at = [&](int below) { return " bf16[7,33], precision_test.cpp:" + std::to_string(line + below); };
  CHECK(text(two) == "2 roundings to 16 bits left out: mul" + at(2) + "; add" + at(3));
  const auto ten = [](const Tensor& x, const Tensor& y) {
    Tensor z = x * y;
    z = z + x;
    z = z * y;
    z = z + y;
    z = z * x;
    z = z + x;
    z = z * y;
    z = z + y;
    z = z * x;
    z = z + x;
    return z * y;
  };
  const std::string bounded = text(ten);
  CHECK(bounded.starts_with("10 roundings to 16 bits left out: mul bf16[7,33], precision_test.cpp:"));
  CHECK(bounded.ends_with("; and 2 more"));
}

TEST_CASE("a kernel under Precision::fused rounds once what f32 computes" * needs(a_compiler)) {
  const auto chain = [](const Tensor& x, const Tensor& y) { return (x * y + y) * x - y; };
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Tensor x = sample(1, dtype), y = sample(2, dtype);
    const Tensor wide = chain(cast(x, DType::f32), cast(y, DType::f32));
    const Tensor found = compile(chain, {.precision = Precision::fused})(x, y);
    CHECK(same_bits(found, cast(wide, dtype)));
    CHECK(!same_bits(found, chain(x, y)));
  }
}

TEST_CASE("what is compared, reduced and kept is rounded under Precision::fused as well" * needs(a_compiler)) {
  const auto f = [](const Tensor& x, const Tensor& y) {
    const Tensor product = x * y;
    return std::pair{product, cast(product < 0.25, DType::i64) + cast(product == x * y, DType::i64)};
  };
  const Tensor x = sample(1, DType::bf16), y = sample(2, DType::bf16);
  const auto [product, tests] = compile(f, {.precision = Precision::fused})(x, y);
  const auto [plain, plain_tests] = f(x, y);
  CHECK(same_bits(product, plain));
  CHECK(all(tests == plain_tests).item<bool>());
}

TEST_CASE("a maximum has its equal under Precision::fused, in whatever kernels both are computed" * needs(a_compiler)) {
  using Results = std::vector<Tensor>;
  // The last result says where the maximum of the rows, or of all, is. A part of what is compared has memory, and is
  // computed in the kernel that finds the maximum.
  const auto after_mean = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    const Tensor t = a * b - mean(a * b, {1}, true), y = t + c, is_most = y == amax(y, {0}, true);
    return Results{where(is_most, t, c), is_most};
  };
  const auto after_softmax = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    const Tensor t = softmax(a * b, 1), y = t + c, is_most = y == amax(y, {0}, true);
    return Results{t, where(is_most, t, c), is_most};
  };
  const auto most_of_most = [](const Tensor& a, const Tensor& b, const Tensor& c) {
    const Tensor t = a * b, y = t + c, most = amax(y, {0}, true), is_most = y == amax(most);
    return Results{t, most, where(is_most, t, c), is_most};
  };
  const auto check = [](const char* name, auto f, bool of_all) {
    CAPTURE(name);
    auto fused = compile(f, {.check = Check::never, .precision = Precision::fused});
    Generator generator(3);
    const auto numbers = [&](DType dtype) { return cast(normal({257, 130}, 0, 1, generator), dtype).eval(); };
    for (int i = 0; i < 8; ++i)
      for (const DType dtype : {DType::bf16, DType::f16}) {
        const Tensor found = cast(fused(numbers(dtype), numbers(dtype), numbers(dtype)).back(), DType::i64);
        CHECK((of_all ? sum(found) : amin(sum(found, {0}))).item<int>() >= 1);
      }
  };
  check("after a mean", after_mean, false);
  check("after a softmax", after_softmax, false);
  check("of maxima", most_of_most, true);
}
