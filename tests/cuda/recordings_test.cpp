// What calls on a device give where parts of them are replayed as CUDA graphs: around steps that can't be recorded,
// under each mode, and while their results are held. Skipped without a GPU.
#include <doctest/doctest.h>

#include <stdexcept>

#include "base/options.hpp"
#include "tests/cuda/support.hpp"
#include "tests/runtime/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

std::vector<float> values(const Tensor& tensor) {
  View<const float> data = tensor.data<float>();
  return {data.begin(), data.end()};
}
Tensor input(std::uint64_t seed) { return to(sample({24, 24}, seed), Device::cuda()).eval(); }

// Steps that are not fused.
Tensor several(Tensor x) {
  for (int i = 0; i < 4; ++i) x = softmax(x * 3 + matmul(x, x) * 0.1, i % 2);
  return x;
}
Tensor on_host(const Tensor& x) {
  return host_call(
      like(x), [](const Tensor& y) { return y * 2 - 1; }, x);
}
Tensor loop(const Tensor& x) {
  return while_loop([](const Tensor& y) { return sum(y) < 500; }, [](const Tensor& y) { return y * 2 + 1; }, x);
}
Tensor choice(const Tensor& x) {
  return cond(
      amax(x) > 0.5, [](const Tensor& y) { return y * 2; }, [](const Tensor& y) { return y - 1; }, x);
}
Tensor factor(const Tensor& x) {
  return linalg::cholesky(matmul(x, transpose(x, 0, 1)) + eye(24, {.device = Device::cuda()}));
}

// The values of each of 40 results, which are held a while, of inputs that take turns.
template <class F>
std::vector<std::vector<float>> results(const F& f) {
  std::vector<Tensor> inputs, held;
  for (std::uint64_t i = 0; i < 3; ++i) inputs.push_back(input(i + 1));
  std::vector<std::vector<float>> all;
  for (std::size_t i = 0; i < 40; ++i) {
    held.push_back(f(inputs[i % inputs.size()]));
    if (i % 8 != 7) continue;
    for (const Tensor& each : held) all.push_back(values(each));
    held.clear();
  }
  for (std::size_t i = 0; i < 40; ++i) {  // and of results that are dropped at once
    const Tensor y = f(inputs[i % inputs.size()]);
    if (i % 5 == 0) all.push_back(values(y));
  }
  return all;
}

template <Tensor (*part)(const Tensor&)>
void check_part() {
  const test::KeepOptions keep;
  for (const CompileMode mode : {CompileMode::automatic, CompileMode::reduce_overhead}) {
    const auto run = [&](bool graphs) {
      options().cuda_graphs = graphs;
      return results(compile([](const Tensor& x) { return several(part(several(x))); }, {.mode = mode}));
    };
    CHECK(run(true) == run(false));
  }
}

bool host_throws = false;
void may_throw(const Tensor&) {
  if (host_throws) throw std::runtime_error("enough");
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("parts of a call that are replayed around steps that can't be give what all steps one by one give") {
  check_part<on_host>();
  check_part<loop>();
  check_part<choice>();
  check_part<factor>();
}

TEST_CASE("a call of one step or two gives the same in each mode, and results that are held stay as they are") {
  const auto one = [](const Tensor& x) { return x * 2 + 1; };
  const auto two = [](const Tensor& x) { return softmax(softmax(x, 0), 1); };
  const auto check = [](const auto& f) {
    const auto expected = results(f);
    for (const CompileMode mode : {CompileMode::automatic, CompileMode::reduce_overhead, CompileMode::max_autotune})
      CHECK(results(compile(f, {.mode = mode})) == results(compile(f)));
    CHECK(results(compile(f)).size() == expected.size());
  };
  check(one);
  check(two);
}

TEST_CASE("inputs at new places in each call give what all steps one by one give") {
  const test::KeepOptions keep;
  const auto f = [](const Tensor& x, const Tensor& y) {
    Tensor z = x + 1;
    for (int i = 0; i < 6; ++i) z = several(z);
    return sum(z * y, 0);
  };
  std::vector<Tensor> inputs;
  for (std::uint64_t i = 0; i < 60; ++i) inputs.push_back(input(i + 1));
  const auto run = [&](bool graphs) {
    options().cuda_graphs = graphs;
    const auto g = compile(f);
    std::vector<Tensor> made;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      made.push_back(g(inputs[i], inputs[(i + 7) % inputs.size()]));
      if (i % 10 == 9) made.push_back(g(inputs[i], inputs[i]));  // one in both places
      if (i % 4 == 3) made.push_back(g(inputs[3], inputs[5]));   // places that come back
    }
    std::vector<std::vector<float>> all;
    for (const Tensor& each : made) all.push_back(values(each));
    return all;
  };
  CHECK(run(true) == run(false));
}

TEST_CASE("the host's code ends a call that is replayed, and state is as before") {
  const test::KeepOptions keep;
  for (const CompileMode mode : {CompileMode::automatic, CompileMode::reduce_overhead}) {
    auto f = compile(
        [](Tensor& state, const Tensor& x) {
          const Tensor y = several(x);
          host_call(may_throw, sum(y));
          state = several(state + y);
        },
        {.mode = mode});
    Tensor state = input(1);
    const Tensor x = input(2);
    for (int i = 0; i < 12; ++i) f(state, x);
    const std::vector<float> before = values(state);
    host_throws = true;
    CHECK_THROWS_WITH_AS(f(state, x), "enough", std::runtime_error);
    CHECK(values(state) == before);
    host_throws = false;
    Tensor other = to(to(state, Device::cpu()), Device::cuda()).eval();
    options().cuda_graphs = false;
    f(other, x);
    options().cuda_graphs = true;
    f(state, x);
    CHECK(values(state) == values(other));
  }
}

TEST_CASE("a check that is thrown in its call is, where the rest of the call is replayed") {
  auto f = compile([](Param& state, const Tensor& index) {
    const Tensor rows = gather(state, index);
    state = state.tensor() + several(state.tensor() + mean(rows));
    return several(rows);
  });
  Param state = input(1);
  const Tensor good = to(arange(24), Device::cuda()).eval(), bad = to(arange(24) + 1, Device::cuda()).eval();
  Tensor held;
  for (int i = 0; i < 12; ++i) {
    held = state.tensor();  // so it is not written in place, and the check does not wait
    f(state, good).eval();
  }
  held = state.tensor();
  const std::vector<float> before = values(held);
  for (int i = 0; i < 3; ++i) {
    CHECK_THROWS_WITH_AS(f(state, bad), doctest::Contains("an index is out of range [0, 24)"), Error);
    CHECK(values(state) == before);
  }
  f(state, good).eval();
  CHECK(values(held) == before);
  CHECK(values(state) != before);
}

TEST_SUITE_END();
