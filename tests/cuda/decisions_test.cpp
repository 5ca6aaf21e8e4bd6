// Compiled functions on a CUDA device that read values: branches, loops until convergence, gradients, checks. Skipped
// without a GPU.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

Tensor there(const Tensor& x) { return to(x, Device::cuda()); }
bool is_close(const Tensor& value, const Tensor& expected) {
  return allclose(to(value, Device::cpu()), expected, {.rtol = 1e-4, .atol = 1e-5}).item<bool>();
}

Tensor branch(const Tensor& x) {
  const Tensor doubled = x * 2;
  if (sum(doubled) > 0) return sqrt(abs(doubled)) + x;
  return doubled - 1;
}
std::pair<Tensor, Tensor> newton(const Tensor& a) {
  Tensor x = a, rounds = zeros_like(sum(a));
  while (amax(abs(x * x - a)) > 1e-3) {
    x = (x + a / x) / 2;
    rounds = rounds + 1;
  }
  return {x, rounds};
}
Tensor slope(const Tensor& x, const Tensor& w) {
  return grad(
      [&](const Tensor& w) {
        const Tensor h = tanh(matmul(x, w));
        return sum(h) > 0 ? sum(square(h)) : sum(h * x);
      },
      w);
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: decisions: branches, loops and gradients, traced and followed") {
  auto compiled_branch = compile(branch);
  auto compiled_newton = compile(newton);
  auto compiled_slope = compile(slope);
  const Tensor w = sample({64, 64}, 3);
  for (int call = 0; call < 3; ++call)
    for (const double scale : {1., -1., 0.25}) {
      const Tensor x = sample({64, 64}, 1) * scale + scale, a = square(sample({1000}, 2) * scale) + 1;
      CHECK(is_close(compiled_branch(there(x)), branch(x)));
      const auto found = compiled_newton(there(a)), expected = newton(a);
      CHECK(is_close(found.first, expected.first));
      CHECK(is_close(found.second, expected.second));
      CHECK(is_close(compiled_slope(there(x), there(w)), slope(x, w)));
    }
  CHECK(specialization_count(compiled_newton) == 1);
}

TEST_CASE("cuda: decisions: a check before one stops the call, and state is as it was") {
  auto f = compile([](Tensor& state, const Tensor& x, const Tensor& index) {
    state = state + gather(x, index);
    if (sum(state) > 100) state = state * 0.5;
    return sum(state);
  });
  Tensor state = there(zeros({1, 4}));
  const Tensor x = there(ones({3, 4}) * 10);
  const auto at = [](std::int64_t i) { return there(from_list<std::int64_t>({i})); };
  for (int call = 0; call < 6; ++call) f(state, x, at(call % 3));
  const double before = sum(state).item();
  CHECK_THROWS_AS(f(state, x, at(3)), Error);
  CHECK(sum(state).item() == before);
  CHECK(f(state, x, at(0)).item() > before - 100);
}

TEST_CASE("cuda: decisions: both sides computed in one segment, with the bits of the branches") {
  struct Run {
    Tensor best = there(full({}, 1e9)), at = there(zeros({64, 64})), waited = there(zeros({}));
  };
  const auto step = [](Run& run, const Tensor& x) {
    const Tensor loss = sum(square(x));
    if (loss < run.best) {
      run.best = loss;
      run.at = x * 2;
      run.waited = zeros_like(run.waited);
    } else {
      run.waited = run.waited + 1;
      if (run.waited > 2) run.best = run.best * 2;
    }
    return loss;
  };
  const auto here = [](const Tensor& x) { return to(x, Device::cpu()); };
  const auto equal = [&](const Tensor& a, const Tensor& b) { return all(here(a) == here(b)).item<bool>(); };
  auto selects = compile(step, {.auto_select = true}), decides = compile(step);
  auto selects_branch = compile(branch, {.auto_select = true}), decides_branch = compile(branch);
  Run own, expected;
  for (int call = 0; call < 16; ++call) {
    const Tensor x = there(sample({64, 64}, 1) * (call % 5 == 0 ? 0.5 / (call + 1) : 1.) - (call % 2));
    CHECK(equal(selects(own, x), decides(expected, x)));
    CHECK(equal(own.best, expected.best));
    CHECK(equal(own.at, expected.at));
    CHECK(equal(own.waited, expected.waited));
    CHECK(equal(selects_branch(x), decides_branch(x)));
  }
  const auto tree = [](const Explanation& e) {
    return to_string(e).find("both sides are computed") != std::string::npos;
  };
  CHECK(tree(explain(selects, own, there(sample({64, 64}, 1)))));
  CHECK(tree(explain(selects_branch, there(sample({64, 64}, 1)))));
}

TEST_SUITE_END();
