// How deep loops and choices may be inside each other: a body that calls its own function without end is an Error, in
// every way that there is to run it, and a nest that is as deep as may be runs.
#include "tests/loops/support.hpp"
#include "tests/small_stack.hpp"

using namespace weft;
using weft::test::on_small_stack;

namespace {

constexpr Backend backends[] = {Backend::compiled, Backend::eager, Backend::reference};

Tensor same(const Tensor& x) { return x; }

Tensor endless_cond(const Tensor& x) {
  return cond(
      sum(x) > 0, [](const Tensor& y) { return endless_cond(y - 1); }, same, x);
}
// The branch that ends comes first.
Tensor endless_second(const Tensor& x) {
  return cond(
      sum(x) <= 0, same, [](const Tensor& y) { return endless_second(y - 1); }, x);
}
Tensor endless_scan(const Tensor& x) {
  return scan([](const Tensor& s, const Tensor& row) { return endless_scan(s) + row; }, x, x);
}
Tensor endless_fori(const Tensor& x) {
  return fori(
      0, 3, [](const Index&, const Tensor& s) { return endless_fori(s); }, x);
}
Tensor endless_while(const Tensor& x) {
  return while_loop([](const Tensor& s) { return sum(s) > 0; }, [](const Tensor& s) { return endless_while(s) - 1; },
                    x);
}
Tensor endless_condition(const Tensor& x) {
  return while_loop([](const Tensor& s) { return sum(endless_condition(s)) > 0; }, same, x);
}
// Each by way of the other.
Tensor endless_mixture(const Tensor& x) {
  return scan([](const Tensor& s, const Tensor&) { return cond(sum(s) > 0, endless_mixture, same, s); }, x, x);
}

template <int levels>
Tensor countdown(const Tensor& x) {
  if constexpr (levels == 0)
    return x * 2;
  else
    return cond(
        sum(x) > 0, [](const Tensor& y) { return countdown<levels - 1>(y - 1) + 1; },
        [](const Tensor& y) { return y * 3; }, x);
}

}  // namespace

TEST_CASE("a loop or choice that calls itself without end is an Error") {
  const Tensor x = ones({3}, {DType::f64});
  const std::pair<const char*, Tensor (*)(const Tensor&)> endless[] = {
      {"cond", endless_cond},        {"cond", endless_second},          {"scan", endless_scan}, {"fori", endless_fori},
      {"while_loop", endless_while}, {"while_loop", endless_condition}, {"", endless_mixture}};
  for (const auto& each : endless) {
    const char* const name = each.first;
    const auto f = each.second;
    CAPTURE(name);
    const std::string words =
        "is inside 64 loops and choices, the limit: recording a body that calls itself never ends";
    const std::string begin = *name ? "[" + std::string(name) + "] " : "";
    const auto refuses = [&](const auto& call) {
      CHECK_THROWS_WITH_AS(call(), doctest::Contains((begin + words).c_str()), Error);
      CHECK_THROWS_WITH_AS(call(), doctest::Contains("at nesting_test.cpp:"), Error);
    };
    refuses([&] { f(x); });
    refuses([&] { grad([&](const Tensor& y) { return sum(f(y)); }, x); });
    for (const Backend backend : backends) {
      CAPTURE(static_cast<int>(backend));
      auto compiled = compile(f, {.backend = backend});
      refuses([&] { compiled(x); });
    }
  }
  // And what follows is not in their way.
  CHECK(cond(sum(x) > 0, same, same, x).size(0) == Dim(3));
}

TEST_CASE("a nest that is as deep as may be") {
  const auto f = [](const Tensor& x) { return countdown<64>(x); };
  const auto slope = [](const Tensor& x) { return grad([](const Tensor& y) { return sum(countdown<64>(y)); }, x); };
  const Tensor x = full({1}, 100, {DType::f64}), less = full({1}, 10, {DType::f64});
  CHECK(f(x).item() == (100 - 64) * 2 + 64);
  CHECK(f(less).item() == 10);
  CHECK(slope(x).item() == 2);
  CHECK(slope(less).item() == 3);
  CHECK_THROWS_WITH_AS(countdown<65>(x), doctest::Contains("[cond] is inside 64 loops and choices"), Error);
  for (const Backend backend : backends) {
    CAPTURE(static_cast<int>(backend));
    auto compiled = compile(f, {.backend = backend});
    CHECK(compiled(x).item() == (100 - 64) * 2 + 64);
    CHECK(compiled(less).item() == 10);
  }
}

TEST_CASE("a nest is recorded and refused on a small stack") {
  std::string message;
  on_small_stack([&] {
    try {
      endless_cond(ones({3}));
    } catch (const Error& error) {
      message = error.what();
    }
  });
  CHECK(message.find("[cond] is inside 64 loops and choices") != std::string::npos);
}
