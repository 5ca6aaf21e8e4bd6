// Forward mode over the table: every primitive's tangents against central differences and against its gradients, second
// derivatives in every order of the two modes, third ones of elementary functions; eagerly, compiled, and by the
// reference interpreter. Pointwise rows are swept from weft/ops.def, so a new row needs no edit here.
#include <doctest/doctest.h>

#include "tests/autograd/cases.hpp"
#include "weft/compile.hpp"
#include "weft/transforms.hpp"

namespace weft::test {
namespace {

using List = std::vector<Tensor>;

std::vector<Case> all_cases(const Shape& shape) {
  std::vector<Case> list = structural_cases();
  for (const Case& each : composite_cases()) list.push_back(each);
  const Shape shapes[] = {shape, shape, shape};
  for (int i = 0; i < op_count; ++i)
    if (is_real_function(static_cast<Op>(i))) list.push_back(pointwise_case(static_cast<Op>(i), shapes));
  return list;
}

// A case's function of its floating inputs alone.
Function of_reals(const Function& f, const List& all) {
  return [f, all](const List& reals) {
    List values;
    std::size_t next = 0;
    for (const Tensor& each : all) values.push_back(is_floating(each.dtype()) ? reals[next++] : each);
    return f(values);
  };
}
List reals_of(const List& all) {
  List reals;
  for (const Tensor& each : all)
    if (is_floating(each.dtype())) reals.push_back(each);
  return reals;
}
// Directions that look random, made in the graph.
List directions(const List& reals) {
  List result;
  for (const Tensor& each : reals)
    result.push_back(cos(cast(reshape(arange(each.element_count()), each.shape()), each.dtype()) * 2.3 +
                         0.4 * (result.size() + 1.0)));
  return result;
}
Tensor dot(const List& a, const List& b) {
  Tensor total;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor part = sum(a[i] * b[i]);
    total = total.defined() ? total + part : part;
  }
  return total;
}

double difference(const Literal& a, const Literal& b) {
  double worst = 0;
  REQUIRE(a.reals.size() == b.reals.size());
  for (std::size_t i = 0; i < a.reals.size(); ++i) {
    const double error = std::abs(a.reals[i] - b.reals[i]) / (1 + std::abs(b.reals[i]));
    worst = std::isnan(error) ? HUGE_VAL : std::max(worst, error);
  }
  return worst;
}

// The tangent of f along directions(), as functions of a case's inputs.
ManyFunction tangent_of(const Function& f) {
  return [f](const List& all) {
    const List reals = reals_of(all);
    return List{jvp(of_reals(f, all), reals, directions(reals)).tangent};
  };
}
// (f(x + h d) - f(x - h d)) / 2h
ManyFunction difference_of(const Function& f, double h) {
  return [f, h](const List& all) {
    const List reals = reals_of(all), along = directions(reals);
    const auto at = [&](double step) {
      List moved;
      for (std::size_t i = 0; i < reals.size(); ++i) moved.push_back(reals[i] + along[i] * step);
      return of_reals(f, all)(moved);
    };
    return List{(at(h) - at(-h)) / (2 * h)};
  };
}

TEST_CASE("tangents of every primitive against central differences, and against its gradients") {
  for (const Case& c : all_cases(Shape::of(2, 3))) {
    CAPTURE(c.name);
    if (c.name == "stop_gradient") continue;  // is not what differences see
    CHECK(difference(run(tangent_of(c.f), c.inputs)[0], run(difference_of(c.f, 1e-5), c.inputs)[0]) < 1e-6);
    const Function number = weighted(c.f);
    const ManyFunction both = [&](const List& all) {
      const List reals = reals_of(all), along = directions(reals);
      const Function f = of_reals(number, all);
      const auto [value, pullback] = vjp(f, reals);
      return List{jvp(f, reals, along).tangent, dot(pullback(constant_like(1, type_of(value), {})), along)};
    };
    const std::vector<Literal> found = run(both, c.inputs);
    CHECK(difference(found[0], found[1]) < 1e-10);
  }
}

// H d by grad of grad, by jvp of grad, by grad of jvp; and d H d by jvp of jvp.
List second_derivatives(const Function& number, const List& all) {
  const List reals = reals_of(all), along = directions(reals);
  const Function f = of_reals(number, all);
  // So that what is linear has a derivative that depends on the inputs.
  const auto curved = [&](const List& x) { return f(x) + dot(x, x) * 0.05; };
  const List reverse = grad([&](const List& x) { return dot(grad(curved, x), along); }, reals);
  const List mixed = hvp(curved, reals, along);
  const List other = grad([&](const List& x) { return jvp(curved, x, along).tangent; }, reals);
  const auto slope = [&](const List& x) { return jvp(curved, x, along).tangent; };
  return {dot(reverse, along), dot(mixed, along), dot(other, along), jvp(slope, reals, along).tangent};
}

TEST_CASE("second derivatives are the same in every order of the two modes") {
  for (const Case& c : all_cases(Shape::of(2, 3))) {
    CAPTURE(c.name);
    const auto found = run([&](const List& all) { return second_derivatives(weighted(c.f), all); }, c.inputs);
    for (std::size_t i = 1; i < found.size(); ++i) {
      CAPTURE(i);
      CHECK(difference(found[i], found[0]) < 1e-8);
    }
  }
}

TEST_CASE("third derivatives of elementary functions") {
  int swept = 0;
  for (int i = 0; i < op_count; ++i) {
    const auto op = static_cast<Op>(i);
    if (!is_real_function(op) || info(op).arity != 1) continue;
    const Shape shapes[] = {Shape::of(7)};
    const Case c = pointwise_case(op, shapes);
    CAPTURE(c.name);
    const auto nested = [&](const List& all) {
      const Tensor x = all[0], one = constant_like(1, type_of(x), {});
      const auto f = [&](const Tensor& a) { return c.f({a}) + a * a * a; };  // so that every slope depends on a
      const auto first = [&](const Tensor& a) { return jvp(f, a, one).tangent; };
      const auto second = [&](const Tensor& a) { return jvp(first, a, one).tangent; };
      const auto by_grad = [&](const Tensor& a) { return grad([&](const Tensor& b) { return sum(first(b)); }, a); };
      return List{jvp(second, x, one).tangent, jvp(by_grad, x, one).tangent,
                  (second(x + 1e-5) - second(x - 1e-5)) / 2e-5};
    };
    const std::vector<Literal> found = run(nested, c.inputs);
    CHECK(difference(found[1], found[0]) < 1e-9);
    CHECK(difference(found[0], found[2]) < 1e-5);
    ++swept;
  }
  CHECK(swept >= 25);
}

const std::vector<Case>& executed_cases() {
  static const std::vector<Case> cases = all_cases(Shape::of(3, 7));
  return cases;
}
List executed(const std::vector<List>& inputs) {
  List results;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    results.push_back(tangent_of(executed_cases()[i].f)(inputs[i])[0]);
    const List reals = reals_of(inputs[i]);
    for (Tensor& each : hvp(of_reals(weighted(executed_cases()[i].f), inputs[i]), reals, directions(reals)))
      results.push_back(each);
  }
  return results;
}

TEST_CASE("tangents and products with Hessians of every primitive: eager = compiled = reference") {
  std::vector<List> inputs;
  for (const Case& c : executed_cases()) {
    List& list = inputs.emplace_back();
    for (const Literal& literal : c.inputs)
      list.push_back(is_floating(literal.type.dtype)
                         ? from_span(std::span<const double>(literal.reals), literal.type.shape)
                         : from_span(std::span<const std::int64_t>(literal.integers), literal.type.shape));
  }
  CompileOptions options{.check = Check::never, .on_compile_error = OnFailure::raise};
  auto compiled = compile([](const std::vector<List>& x) { return executed(x); }, options);
  options.backend = Backend::reference;
  auto reference = compile([](const std::vector<List>& x) { return executed(x); }, options);
  const List expected = reference(inputs), generated = compiled(inputs), eager = executed(inputs);
  REQUIRE(expected.size() == generated.size());
  REQUIRE(expected.size() == eager.size());
  std::size_t next = 0;
  for (const Case& c : executed_cases()) {
    CAPTURE(c.name);
    std::size_t results = 1;
    for (const Literal& literal : c.inputs) results += is_floating(literal.type.dtype);
    for (; results-- > 0; ++next)
      for (const List* const found : {&generated, &eager}) {
        const View<const double> want = expected[next].data<double>(), got = (*found)[next].data<double>();
        REQUIRE(want.size() == got.size());
        for (std::size_t i = 0; i < want.size(); ++i)
          CHECK(std::abs(got[i] - want[i]) <= 1e-11 * (1 + std::abs(want[i])));
      }
  }
  CHECK(next == expected.size());
}

}  // namespace
}  // namespace weft::test
