// Loops on a CUDA device: the same numbers as on the host, with state, checks and values that decide how to go on.
// Skipped without a GPU.
#include <doctest/doctest.h>

#include "tests/cuda/support.hpp"
#include "weft/weft.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

Tensor there(const Tensor& x) { return to(x, Device::cuda()); }
void check_close(const Tensor& value, const Tensor& expected) {
  CHECK(value.shape() == expected.shape());
  CHECK(max(abs(to(value, Device::cpu()) - expected)).item() < 2e-3);
}

std::vector<Tensor> train(const nn::GRU& model, const Tensor& x) {
  auto [loss, slopes] = value_and_grad([&](const nn::GRU& m) { return mean(square(m(x).output)); }, model);
  std::vector<Tensor> all{loss};
  for (const auto& slope : nn::parameters(slopes)) all.push_back(slope.value);
  return all;
}

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("cuda: a GRU's results and gradients, compiled and eager, and replayed") {
  nn::GRU model(8, 16);
  const Tensor x = sample({20, 4, 8}, 1);
  const std::vector<Tensor> expected = train(model, x);
  nn::to(model, Device::cuda());
  auto step = compile(train);
  for (int call = 0; call < 6; ++call) {
    const std::vector<Tensor> made = step(model, there(x));
    for (std::size_t i = 0; i < made.size(); ++i) check_close(made[i], expected[i]);
  }
  const std::vector<Tensor> eager = train(model, there(x));
  for (std::size_t i = 0; i < eager.size(); ++i) check_close(eager[i], expected[i]);
}

TEST_CASE("cuda: while_loop and cond wait for what decides") {
  const auto f = [](const Tensor& x) {
    const Tensor y =
        while_loop([](const Tensor& s) { return sum(s) < 100; }, [&](const Tensor& s) { return s * 2 + 1; }, abs(x));
    return std::vector{
        y, cond(
               sum(x) > 0, [](const Tensor& a) { return a + 1; }, [](const Tensor& a) { return a * 2; }, y)};
  };
  auto compiled = compile(f);
  for (const double sign : {1.0, -1.0}) {
    const Tensor x = abs(sample({5}, 1)) * sign;
    const std::vector<Tensor> expected = f(x);
    for (int call = 0; call < 4; ++call) {
      const std::vector<Tensor> made = compiled(there(x));
      for (std::size_t i = 0; i < made.size(); ++i) check_close(made[i], expected[i]);
    }
  }
}

TEST_CASE("cuda: a cache is updated where it lies, and not by a call of which a check fails") {
  struct Cache {
    Tensor k;
    static Tensor step(Cache& cache, const Tensor& row, const Index& at) {
      cache.k = update_slice(cache.k, row, 1, at);
      return sum(slice(cache.k, 1, at, 1));
    }
  };
  auto compiled = compile(Cache::step);
  Cache cache{there(zeros({2, 64, 4}))};
  const Tensor row = there(ones({2, 1, 4}));
  for (int i = 0; i < 8; ++i) CHECK(compiled(cache, row * (i + 1), Index(i)).item() == doctest::Approx(8 * (i + 1)));
  const double before = sum(cache.k).item();
  CHECK(before == doctest::Approx(8 * 36));
  CHECK_THROWS_AS((compiled(cache, row, Index(64)).eval(), sum(cache.k).item()), Error);
  CHECK(sum(cache.k).item() == before);
}

TEST_CASE("cuda: kernels write slices of states where they lie, in recorded calls too") {
  struct Caches {
    Tensor k, v;
    static Tensor step(Caches& c, const Tensor& x, const Tensor& w, const Index& at) {
      const auto turned = [](const Tensor& y) {
        const Tensor first = slice(y, 2, 0, 32), second = slice(y, 2, 32, 64);
        return concat({first - second, first + second}, 2);
      };
      const Tensor q = turned(reshape(matmul(x, w), {12, 1, 64}));  // a launch of both: one writes into the state
      c.k = update_slice(c.k, turned(reshape(matmul(x, slice(w, 1, 0, 512)), {8, 1, 64})), 1, at);
      c.v = update_slice(c.v, reshape(sin(matmul(x, slice(w, 1, 256, 768))), {8, 1, 64}), 1, at);
      return sum(q) + sum(c.k * c.v, 1);
    }
  };
  auto compiled = compile(Caches::step);
  const Tensor x = sample({1, 256}, 1), w = sample({256, 768}, 2) * 0.1;
  Caches made{there(sample({8, 32, 64}, 3)), there(sample({8, 32, 64}, 4))};
  Caches expected{sample({8, 32, 64}, 3), sample({8, 32, 64}, 4)};
  Caches held;
  for (int i = 0; i < 8; ++i) {
    const std::int64_t at = i == 5 ? 31 : i;
    if (i == 4) held = made;
    const Tensor before = i == 4 ? (made.k * 1).eval() : Tensor();
    check_close(compiled(made, there(x + i), there(w), at), Caches::step(expected, x + i, w, at));
    check_close(made.k, expected.k);
    check_close(made.v, expected.v);
    if (before.defined()) check_close(held.k, to(before, Device::cpu()));
    held = {};
  }
  CHECK_THROWS_AS((compiled(made, there(x), there(w), Index(32)).eval(), sum(made.k).item()), Error);
  check_close(made.k, expected.k);
  check_close(made.v, expected.v);
}

// From the second size on, sizes are symbols: a loop, a choice and a factorization run at the values that these have.
TEST_CASE("cuda: loops, choices and factorizations at changing sizes by the eager executor") {
  const auto f = [](const Tensor& x) {
    const Tensor often = fori(
        0, 3, [](Index, Tensor s) { return tanh(s) + 1; }, x);
    const Tensor until =
        while_loop([](const Tensor& s) { return sum(s) < 100; }, [](const Tensor& s) { return s * 2 + 1; }, abs(x));
    const Tensor chosen = cond(
        sum(x) > 0, [](const Tensor& a) { return a + 1; }, [](const Tensor& a) { return a * 2; }, x);
    const Tensor square_of = matmul(transpose(x), x) + eye(4, {.device = x.device()}) * 4;
    return std::vector{often, until, chosen, linalg::cholesky(square_of)};
  };
  auto compiled = compile(f, {.backend = "eager"});
  auto slopes = compile(
      [](const Tensor& x) {
        return grad(
            [](const Tensor& y) {
              return sum(fori(
                  0, 3, [](Index, Tensor s) { return sin(s) * 2; }, y));
            },
            x);
      },
      {.backend = "eager"});
  for (const std::int64_t rows : {5, 6, 7})
    for (const double sign : {1.0, -1.0}) {
      const Tensor x = abs(sample({rows, 4}, 1)) * sign;
      const std::vector<Tensor> expected = f(x), made = compiled(there(x));
      for (std::size_t i = 0; i < made.size(); ++i) check_close(made[i], expected[i]);
      check_close(slopes(there(x)), slopes(x));
    }
  CHECK(specialization_count(compiled) == 2);
}

TEST_CASE("cuda: random numbers and checks in a body") {
  const auto f = [](Generator& rng, const Tensor& table, const Tensor& at) {
    return scan(
        [&](const Tensor& s, const Tensor& i) {
          return s + gather(table, i) + uniform({3}, 0, 1, rng, {DType::f32, table.device()});
        },
        zeros({3}, {DType::f32, table.device()}), at);
  };
  const Tensor table = sample({4, 3}, 1), at = from_list<std::int64_t>({0, 3, 2, 1, 1}),
               bad = from_list<std::int64_t>({0, 7});
  Generator host(3), device(3), compiled(3);
  const Tensor expected = f(host, table, at);
  check_close(f(device, there(table), there(at)), expected);
  auto made = compile(f);
  check_close(made(compiled, there(table), there(at)), expected);
  CHECK_THROWS_AS(made(compiled, there(table), there(bad)).item(), Error);
}

TEST_SUITE_END();
