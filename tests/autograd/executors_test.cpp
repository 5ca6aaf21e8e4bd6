// Gradients are the same however they are run: eagerly, compiled, and by the reference interpreter. One compiled
// function holds the first and second derivatives of every primitive.
#include <doctest/doctest.h>

#include "record/evaluate.hpp"
#include "tests/autograd/cases.hpp"
#include "weft/compile.hpp"
#include "weft/expr.hpp"

namespace weft::test {
namespace {

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    std::vector<Case> list = structural_cases();
    for (const Case& each : composite_cases()) list.push_back(each);
    Shape wide = Shape::of(3, 7), shapes[] = {wide, wide, wide};
    for (int i = 0; i < op_count; ++i)
      if (is_real_function(static_cast<Op>(i))) list.push_back(pointwise_case(static_cast<Op>(i), shapes));
    return list;
  }();
  return cases;
}

// Each case's gradients, and those of a number made of them.
std::vector<Tensor> all_gradients(const std::vector<std::vector<Tensor>>& inputs) {
  std::vector<Tensor> results;
  for (std::size_t i = 0; i < all_cases().size(); ++i) {
    Function f = weighted(all_cases()[i].f);
    for (Tensor& gradient : gradients_of(f)(inputs[i])) results.push_back(gradient);
    for (Tensor& second : gradients_of(gradient_number(f))(inputs[i])) results.push_back(second);
  }
  return results;
}

std::vector<double> values(const Tensor& tensor) {
  View<const double> view = tensor.data<double>();
  return {view.begin(), view.end()};
}

TEST_CASE("first and second derivatives of every primitive: eager = compiled = reference") {
  std::vector<std::vector<Tensor>> inputs;
  for (const Case& c : all_cases()) {
    std::vector<Tensor>& list = inputs.emplace_back();
    for (const Literal& literal : c.inputs)
      list.push_back(is_floating(literal.type.dtype)
                         ? from_span(std::span<const double>(literal.reals), literal.type.shape)
                         : from_span(std::span<const std::int64_t>(literal.integers), literal.type.shape));
  }
  CompileOptions options{.check = Check::never, .on_compile_error = OnFailure::raise};
  auto compiled = compile([](const std::vector<std::vector<Tensor>>& x) { return all_gradients(x); }, options);
  options.backend = Backend::reference;
  auto reference = compile([](const std::vector<std::vector<Tensor>>& x) { return all_gradients(x); }, options);
  std::vector<Tensor> expected = reference(inputs), generated = compiled(inputs), eager = all_gradients(inputs);
  REQUIRE(expected.size() == generated.size());
  REQUIRE(expected.size() == eager.size());
  // A few roundings of f64 for each of some dozens of operations, on values of about 1 to 1000.
  constexpr double bound = 1e-11;
  std::size_t next = 0;
  for (const Case& c : all_cases()) {
    CAPTURE(c.name);
    std::size_t reals = 0;
    for (const Literal& literal : c.inputs) reals += is_floating(literal.type.dtype);
    for (std::size_t k = 0; k < 2 * reals; ++k, ++next) {
      std::vector<double> want = values(expected[next]), one = values(generated[next]), two = values(eager[next]);
      REQUIRE(want.size() == one.size());
      REQUIRE(want.size() == two.size());
      for (std::size_t i = 0; i < want.size(); ++i) {
        CHECK(std::abs(one[i] - want[i]) <= bound * (1 + std::abs(want[i])));
        CHECK(std::abs(two[i] - want[i]) <= bound * (1 + std::abs(want[i])));
      }
    }
  }
  CHECK(next == expected.size());
}

TEST_CASE("a user's scalar expression has its gradient, eagerly and compiled") {
  static constexpr auto own_mish = elementwise([](auto x) { return x * tanh(log1p(exp(x))); });
  auto slope = [](const Tensor& x) { return grad([](const Tensor& v) { return sum(own_mish(v)); }, x); };
  auto curvature = [](const Tensor& x) {
    return grad([](const Tensor& v) { return sum(grad([](const Tensor& w) { return sum(own_mish(w)); }, v)); }, x);
  };
  auto compiled = compile(slope);
  Tensor x = from_list<double>({-2, -0.5, 0, 1, 3});
  std::vector<double> at = values(x), eager = values(slope(x)), generated = values(compiled(x)),
                      second = values(curvature(x));
  auto f = [](double v) { return v * std::tanh(std::log1p(std::exp(v))); };
  for (std::size_t i = 0; i < at.size(); ++i) {
    CHECK(eager[i] == doctest::Approx((f(at[i] + 1e-5) - f(at[i] - 1e-5)) / 2e-5).epsilon(1e-8));
    CHECK(generated[i] == doctest::Approx(eager[i]).epsilon(1e-12));
    CHECK(second[i] == doctest::Approx((f(at[i] + 1e-4) - 2 * f(at[i]) + f(at[i] - 1e-4)) / 1e-8).epsilon(1e-5));
  }
}

}  // namespace
}  // namespace weft::test
