// Recorded calls that are replayed: an input that was freed, whose memory another tensor has by then; inputs that move;
// state and results that are kept or dropped. A recording holds addresses, and no memory but its own.
#include <doctest/doctest.h>

#include "base/options.hpp"
#include "ir/node.hpp"
#include "tests/cuda/values.hpp"
#include "tests/runtime/support.hpp"
#include "weft/cuda.hpp"

using namespace weft;
using namespace cuda_test;

namespace {

const void* address(const Tensor& x) { return x.node()->storage->data; }
// Both on the host.
bool same(const Tensor& a, const Tensor& b) { return all(to(a, Device::cpu()) == to(b, Device::cpu())).item<bool>(); }

// Two sizes: blocks of up to a MiB come from lists of Weft, larger ones from a pool of the driver.
constexpr std::int64_t rows_of_cases[] = {64, 3000};
constexpr std::int64_t columns = 300;

Tensor on_device(std::int64_t rows, std::uint64_t seed) { return there({rows, columns}, seed, DType::f32); }

// Three steps, of which one is a product: worth a recording.
Tensor several_steps(const Tensor& x, const Tensor& w) { return softmax(matmul(tanh(x), w), -1) + mean(x, -1, true); }

}  // namespace

TEST_SUITE_BEGIN("cuda" * test::needs(a_device));

TEST_CASE("an input that was freed between replays: whoever has its memory then is neither read nor written") {
  const test::KeepOptions keep;
  for (const std::int64_t rows : rows_of_cases) {
    CAPTURE(rows);
    options().cuda_graphs = false;
    const Tensor w = there({columns, columns}, 9, DType::f32, 0.1);
    std::vector<Tensor> expected;
    const auto step_by_step = compile(several_steps);
    for (std::uint64_t seed = 0; seed < 12; ++seed) expected.push_back(step_by_step(on_device(rows, seed), w).eval());
    options().cuda_graphs = true;
    const auto f = compile(several_steps);
    Tensor x = on_device(rows, 0);
    for (int call = 0; call < 5; ++call) CHECK(same(f(x, w), expected[0]));  // recorded, and replayed
    int taken = 0;
    for (std::uint64_t seed = 1; seed + 1 < expected.size(); seed += 2) {
      const void* const before = address(x);
      x = {};
      // The block is given out again, to a tensor that the calls know nothing of.
      const Tensor other = on_device(rows, seed);
      taken += address(other) == before;
      const Tensor copy = to(other, Device::cpu()).eval();
      const Tensor next = on_device(rows, seed + 1);
      for (int call = 0; call < 3; ++call) CHECK(same(f(next, w), expected[seed + 1]));
      CHECK(same(other, copy));
      // At the address that was recorded, but with other values.
      for (int call = 0; call < 3; ++call) CHECK(same(f(other, w), expected[seed]));
      x = other;
    }
    CHECK(taken > 0);
  }
}

TEST_CASE("inputs that move with every call, and come back to where they were") {
  const test::KeepOptions keep;
  const auto f = compile(several_steps);
  for (const std::int64_t rows : rows_of_cases) {
    CAPTURE(rows);
    const Tensor w = there({columns, columns}, 9, DType::f32, 0.1), elsewhere = (w * 1).eval();
    std::vector<Tensor> places, expected;
    options().cuda_graphs = false;
    const auto step_by_step = compile(several_steps);
    for (std::uint64_t seed = 0; seed < 7; ++seed) {
      places.push_back(on_device(rows, seed));
      expected.push_back(step_by_step(places.back(), w).eval());
    }
    options().cuda_graphs = true;
    // One place four times, then more places than there are recordings, forwards and back, and the other weight.
    const std::size_t turns[] = {0, 0, 0, 0, 1, 0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 5, 4, 3, 2, 1, 0, 0, 1, 1, 0};
    for (const Tensor& weight : {w, elsewhere, w})
      for (const std::size_t turn : turns) CHECK(same(f(places[turn], weight), expected[turn]));
  }
}

TEST_CASE("results that are dropped and kept by turns, and state that is replaced between replays") {
  const test::KeepOptions keep;
  const auto step = [](Tensor& state, const Tensor& x) {
    state = state * 0.5 + tanh(x);
    return sum(state, -1) + amax(x, -1);
  };
  for (const std::int64_t rows : rows_of_cases) {
    CAPTURE(rows);
    const auto run = [&](bool graphs) {
      options().cuda_graphs = graphs;
      const auto compiled = compile(step);
      Tensor state = on_device(rows, 1);
      std::vector<Tensor> kept, all;
      for (std::uint64_t turn = 0; turn < 30; ++turn) {
        const Tensor x = on_device(rows, 2 + turn / 4);  // freed at the end of the turn
        const Tensor result = compiled(state, x).eval();
        if (turn % 3 == 0) kept.push_back(result);
        if (turn % 7 == 6) state = (state + 1).eval();  // elsewhere; the former memory is free
        if (turn % 5 == 4) all.push_back(to(on_device(rows, turn), Device::cpu()));
      }
      for (const Tensor& result : kept) all.push_back(to(result, Device::cpu()));
      all.push_back(to(state, Device::cpu()));
      return all;
    };
    const std::vector<Tensor> expected = run(false), found = run(true);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) CHECK(same(found[i], expected[i]));
  }
}

TEST_CASE("a recorded function that is gone leaves its inputs, and memory that is given back is not replayed into") {
  const test::KeepOptions keep;
  options().cuda_graphs = true;
  const Tensor w = there({columns, columns}, 9, DType::f32, 0.1), x = on_device(3000, 1);
  Tensor before;
  {
    const auto f = compile(several_steps);
    for (int call = 0; call < 5; ++call) before = f(x, w).eval();
  }
  cuda::empty_cache();
  const auto f = compile(several_steps);
  for (int call = 0; call < 5; ++call) {
    CHECK(same(f(x, w), before));
    cuda::empty_cache();
  }
}

TEST_SUITE_END();
