// Random tensors: the bits are Philox's, draws advance in program order, and distributions have their moments.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <thread>

#include "interpret/reference.hpp"
#include "record/random.hpp"
#include "record/record.hpp"
#include "tests/record/refused.hpp"
#include "weft/compile.hpp"
#include "weft/ops.hpp"
#include "weft/random.hpp"

namespace weft {
namespace {

template <class T>
std::vector<T> values(const Tensor& tensor) {
  View<const T> view = tensor.data<T>();
  return {view.begin(), view.end()};
}
using Bits = std::vector<std::int32_t>;

TEST_CASE("bits are Philox4x32-10 of the seed, the offset and the position") {
  Generator generator(0);
  Bits bits = values<std::int32_t>(generator.bits({6}));
  // The published answer for a counter and a key of zeros.
  CHECK(static_cast<std::uint32_t>(bits[0]) == 0x6627e8d5);
  CHECK(static_cast<std::uint32_t>(bits[1]) == 0xe169c58d);
  CHECK(static_cast<std::uint32_t>(bits[2]) == 0xbc57ac4c);
  CHECK(static_cast<std::uint32_t>(bits[3]) == 0x9b00dbd8);
}

TEST_CASE("equal seeds give equal numbers, each draw others, whatever the shape") {
  Generator a(42), b(42), c(43);
  Bits first = values<std::int32_t>(a.bits({3, 4}));
  CHECK(first == values<std::int32_t>(b.bits({12})));
  CHECK(first != values<std::int32_t>(c.bits({12})));
  Bits second = values<std::int32_t>(a.bits({12}));
  CHECK(first != second);
  CHECK(second == values<std::int32_t>(b.bits({12})));
}

TEST_CASE("a draw that nobody uses still advances") {
  Generator a(7), b(7);
  { Tensor dropped = a.bits({5}); }
  values<std::int32_t>(b.bits({5}));
  CHECK(values<std::int32_t>(a.bits({5})) == values<std::int32_t>(b.bits({5})));
}

TEST_CASE("forks and names give generators of their own") {
  Generator a(7), b(7);
  Generator fork = a.fork();
  Bits forked = values<std::int32_t>(fork.bits({64})), parent = values<std::int32_t>(a.bits({64}));
  CHECK(forked != parent);
  CHECK(forked == values<std::int32_t>(b.fork().bits({64})));
  CHECK(values<std::int32_t>(a.fork().bits({64})) != forked);

  Generator left(1), right(1);
  Bits weight = values<std::int32_t>(left.named("weight").bits({8})),
       bias = values<std::int32_t>(left.named("bias").bits({8}));
  CHECK(weight != bias);
  CHECK(bias == values<std::int32_t>(right.named("bias").bits({8})));
  CHECK(weight == values<std::int32_t>(right.named("weight").bits({8})));
}

TEST_CASE("the default generator: seeded, and shared by threads") {
  seed(3);
  Bits first = values<std::int32_t>(default_generator().bits({8}));
  seed(3);
  CHECK(first == values<std::int32_t>(default_generator().bits({8})));
  Generator same(3);
  CHECK(first == values<std::int32_t>(same.bits({8})));

  seed(11);
  std::vector<Bits> drawn(8);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&drawn, t] {
      for (int i = 0; i < 2; ++i)
        drawn[static_cast<std::size_t>(2 * t + i)] = values<std::int32_t>(default_generator().bits({4}));
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::set<Bits>(drawn.begin(), drawn.end()).size() == 8);  // no draw twice
}

TEST_CASE("a generator that was moved from is refused") {
  Generator a(1);
  Generator b = std::move(a);
  CHECK_THROWS_WITH_AS(a.bits({2}), doctest::Contains("moved from"), Error);
  CHECK(b.bits({2}).shape().same(Shape::of(2)));
}

TEST_CASE("inside a trace the default generator is a hidden input that ends one draw further each time") {
  seed(5);
  const auto current_state = [] { return *hold_default_generator().state; };
  Tensor before = current_state();
  Trace trace;
  trace.id = new_trace_id();
  Graph graph;
  {
    TraceScope scope(trace);
    Tensor dead = uniform({4});
    Tensor kept = default_generator().bits({4});
    CHECK_THROWS_WITH_AS(seed(1), doctest::Contains("inside a compiled function"), Error);
    CHECK_THROWS_WITH_AS(permutation(4), doctest::Contains("not inside a compiled function"), Error);
    REQUIRE(trace.generator_input.defined());
    graph = make_graph({trace.generator_input}, {kept, trace.generator_value}, {});
  }
  verify(graph);
  CHECK(current_state().same(before));
  Literal state{type_of(before), {}, {5, 0}};
  std::vector<Literal> results = interpret(graph, std::span(&state, 1), {});
  CHECK(results[1].integers == std::vector<std::int64_t>{5, 2});
  Generator same(5);
  same.bits({1});
  Bits expected = values<std::int32_t>(same.bits({4}));
  CHECK(std::equal(expected.begin(), expected.end(), results[0].integers.begin()));
}

struct Moments {
  double mean, deviation, least, most;
};
Moments moments(const Tensor& tensor) {
  std::vector<double> v = values<double>(cast(tensor, DType::f64));
  double mean = std::accumulate(v.begin(), v.end(), 0.0) / static_cast<double>(v.size()), square = 0;
  for (double x : v) square += (x - mean) * (x - mean);
  auto [least, most] = std::minmax_element(v.begin(), v.end());
  return {mean, std::sqrt(square / static_cast<double>(v.size())), *least, *most};
}

constexpr std::int64_t many = 200000;  // a mean's deviation is then 1/447 of the distribution's

TEST_CASE("uniform") {
  Generator generator(1);
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    CAPTURE(info(dtype).name);
    Tensor sample = uniform({many}, -1, 3, generator, {dtype});
    CHECK(sample.dtype() == dtype);
    Moments m = moments(sample);
    CHECK(m.mean == doctest::Approx(1).epsilon(0.02));
    CHECK(m.deviation == doctest::Approx(4 / std::sqrt(12)).epsilon(0.01));
    CHECK(m.least >= -1);
    CHECK(m.most < 3);
  }
  Moments narrow = moments(uniform({many}, 1, std::nextafter(1.0f, 2.0f), generator));
  CHECK(narrow.most == 1);  // the bound is never reached by rounding
  // Neighbours are not the same and not shifted copies (lanes that are drawn twice).
  std::vector<float> v = values<float>(uniform({4096}, 0, 1, generator));
  CHECK(std::set<float>(v.begin(), v.end()).size() > 4090);
  CHECK(values<double>(uniform({3}, 2, 2, generator, {DType::f64})) == std::vector<double>{2, 2, 2});
}

TEST_CASE("normal") {
  Generator generator(2);
  for (DType dtype : {DType::f32, DType::f64}) {
    Moments m = moments(normal({many}, 2, 3, generator, {dtype}));
    CHECK(m.mean == doctest::Approx(2).epsilon(0.02));
    CHECK(m.deviation == doctest::Approx(3).epsilon(0.01));
    CHECK(m.most > 2 + 3 * 3.5);
    CHECK(std::isfinite(m.most));
    CHECK(std::isfinite(m.least));
  }
}

TEST_CASE("integers, coins, dropout, permutations") {
  Generator generator(3);
  Moments m = moments(randint({many}, -2, 8, generator));
  CHECK(m.least == -2);
  CHECK(m.most == 7);
  CHECK(m.mean == doctest::Approx(2.5).epsilon(0.02));
  CHECK(moments(bernoulli({many}, 0.3, generator)).mean == doctest::Approx(0.3).epsilon(0.02));
  CHECK(moments(bernoulli({100}, 0, generator)).most == 0);
  CHECK(moments(bernoulli({100}, 1, generator)).least == 1);

  Tensor dropped = dropout(ones({many}), 0.25, generator);
  Moments d = moments(dropped);
  CHECK(d.mean == doctest::Approx(1).epsilon(0.01));
  CHECK(d.least == 0);
  CHECK(d.most == doctest::Approx(1 / 0.75));
  CHECK(moments(dropout(ones({10}), 1, generator)).most == 0);
  for (double probability : {0.0, 0.5, 1.0}) CHECK(dropout(arange(3), probability, generator).dtype() == DType::f32);

  std::vector<std::int64_t> order = permutation(1000, generator), sorted = order;
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::int64_t> identity(1000);
  std::iota(identity.begin(), identity.end(), 0);
  CHECK(sorted == identity);
  CHECK(order != identity);
  CHECK(permutation(0, generator).empty());
  // Each place is as likely: the first element's mean over many small ones.
  double first = 0;
  for (int i = 0; i < 4000; ++i) first += static_cast<double>(permutation(3, generator)[0]);
  CHECK(first / 4000 == doctest::Approx(1).epsilon(0.05));
}

// What the same draw gives without options and with them.
template <class T>
std::vector<T> as_drawn(const Tensor& draw) {
  return values<T>(cast(draw, dtype_of<T>));
}

TEST_CASE("options choose the dtype and not the numbers, with a generator or in its place") {
  const auto of = [](auto draw) {
    Generator generator(11);
    return draw(generator);
  };
  using Integers = std::vector<std::int64_t>;
  const Integers dice = of([](Generator& g) { return as_drawn<std::int64_t>(randint({50}, -3, 9, g)); });
  for (const DType dtype : {DType::i8, DType::i32, DType::i64, DType::f16, DType::f64}) {
    const Tensor drawn = of([&](Generator& g) { return randint({50}, -3, 9, g, {.dtype = dtype}); });
    CHECK(drawn.dtype() == dtype);
    CHECK(as_drawn<std::int64_t>(drawn) == dice);
    seed(11);
    CHECK(as_drawn<std::int64_t>(randint({50}, -3, 9, {.dtype = dtype})) == dice);
  }
  CHECK(moments(randint({many}, 0, 256, {.dtype = DType::u8})).most == 255);
  CHECK(moments(randint({many}, 0, 2, {.dtype = DType::boolean})).mean == doctest::Approx(0.5).epsilon(0.02));
  const Integers coins = of([](Generator& g) { return as_drawn<std::int64_t>(bernoulli({50}, 0.4, g)); });
  seed(11);
  const Tensor coins_of_floats = bernoulli({50}, 0.4, {.dtype = DType::f32});
  CHECK(coins_of_floats.dtype() == DType::f32);
  CHECK(as_drawn<std::int64_t>(coins_of_floats) == coins);

  const auto equal = [](Tensor a, Tensor b) { return a.dtype() == b.dtype() && all(a == b).item<bool>(); };
  const auto seeded = [](auto draw) {
    seed(7);
    return draw().eval();
  };
  Generator& g = default_generator();
  const Options wide{DType::f64};
  CHECK(equal(seeded([&] { return uniform({9}, wide); }), seeded([&] { return uniform({9}, 0, 1, g, wide); })));
  CHECK(equal(seeded([&] { return uniform({9}, {.dtype = DType::f64}); }),
              seeded([&] { return uniform({9}, 0, 1, wide); })));
  CHECK(equal(seeded([&] { return normal({9}, wide); }), seeded([&] { return normal({9}, 0, 1, g, wide); })));
  CHECK(equal(seeded([&] { return normal({9}, 2, 3, wide); }), seeded([&] { return normal({9}, 2, 3, g, wide); })));
  CHECK(equal(seeded([&] { return cauchy({9}, 1, 2, wide); }), seeded([&] { return cauchy({9}, 1, 2, g, wide); })));
  CHECK(equal(seeded([&] { return exponential({9}, 2, wide); }), seeded([&] { return exponential({9}, 2, g, wide); })));
  CHECK(equal(seeded([&] { return geometric({9}, .3, wide); }), seeded([&] { return geometric({9}, .3, g, wide); })));
  CHECK(equal(seeded([&] { return log_normal({9}, 1, 2, wide); }),
              seeded([&] { return log_normal({9}, 1, 2, g, wide); })));
  const Tensor like = zeros({3, 5}, {DType::bf16});
  CHECK(equal(seeded([&] { return uniform_like(like); }), seeded([&] { return uniform({3, 5}, {DType::bf16}); })));
  CHECK(equal(seeded([&] { return normal_like(like, 1, 2); }), seeded([&] {
                return normal({3, 5}, 1, 2, {DType::bf16});
              })));
}

TEST_CASE("a permutation that is a tensor, as weft/random.hpp says, in a compiled function too") {
  const auto shuffled = [] { return permutation(1000, {.device = Device::cpu()}); };
  const auto compiled = compile([](const Tensor& x) { return gather(x, permutation(1000, RangeOptions())); });
  const Tensor identity = arange(1000);
  seed(3);
  for (const Tensor& order : {shuffled(), compiled(identity)}) {
    CHECK(order.dtype() == DType::i64);
    CHECK(all(sort(order).values == identity).item<bool>());
    CHECK(!all(order == identity).item<bool>());
  }
  Generator one(5), same(5);
  const Tensor order = permutation(100, one, {.dtype = DType::i32});
  CHECK(order.dtype() == DType::i32);
  CHECK(all(order == argsort(same.bits({100}))).item<bool>());
  CHECK(!all(permutation(100, one, RangeOptions()) == order).item<bool>());  // the generator's next draw
  CHECK(permutation(0, RangeOptions()).size(0) == 0);
  CHECK(permutation(256, {.dtype = DType::u8}).dtype() == DType::u8);
  test::refused([] { permutation(257, {.dtype = DType::u8}); }, "u8 does not hold all integers of [0, 257)");
  test::refused([] { permutation(-1, RangeOptions()); }, "-1 elements");
}

TEST_CASE("a wide interval: the difference of its ends may be more than the dtype holds") {
  const struct {
    DType dtype;
    double low, high;
  } intervals[] = {{DType::f32, -3e38, 3e38},
                   {DType::f32, -3.4e38, 1},
                   {DType::bf16, -3e38, 3e38},
                   {DType::f16, -65504, 65504},
                   {DType::f64, -1.7e308, 1.7e308}};
  for (const auto& interval : intervals) {
    const double low = interval.low, high = interval.high;
    INFO(info(interval.dtype).name);
    Generator generator(3);
    const Tensor drawn = cast(uniform({4000}, low, high, generator, {interval.dtype}), DType::f64);
    const Tensor unit = drawn / (high / 2 - low / 2) - (high / 2 + low / 2) / (high / 2 - low / 2);  // in [-1, 1)
    CHECK(amin(drawn).item() >= low * 1.004);  // bf16 rounds the ends
    CHECK(amax(drawn).item() <= high);
    CHECK(std::abs(mean(unit).item()) < 0.05);
    CHECK(mean(unit * unit).item() == doctest::Approx(1.0 / 3).epsilon(0.05));
  }
}

TEST_CASE("what makes no sense is refused, with the user's line") {
  test::refused([] { uniform({2}, 1, 0); }, "is empty");
  test::refused([] { uniform({2}, 0, INFINITY); }, "the high end is inf");
  test::refused([] { uniform({2}, -INFINITY, 0); }, "the low end is -inf");
  test::refused([] { uniform({2}, NAN, 0); }, "the low end is nan");
  test::refused([] { uniform({2}, 0, 1e39); }, "the high end is 1e+39, in f32");
  test::refused([] { uniform({2}, 0, 1e5, default_generator(), {DType::f16}); }, "the high end is 100000, in f16");
  test::refused([] { normal({2}, INFINITY); }, "the mean is inf");
  test::refused([] { normal({2}, 0, NAN); }, "the deviation is nan");
  test::refused([] { normal({2}, 0, 1e39); }, "the deviation is 1e+39, in f32");
  test::refused([] { uniform({2}, 0, 1, default_generator(), {DType::i64}); }, "needs a floating dtype");
  test::refused([] { normal({2}, 0, -1); }, "deviation is -1");
  test::refused([] { randint({2}, 3, 3); }, "[3, 3)");
  test::refused([] { randint({2}, 0, 257, {.dtype = DType::u8}); }, "u8 does not hold all integers of [0, 257)");
  test::refused([] { randint({2}, -1, 2, {.dtype = DType::u8}); }, "u8 does not hold");
  test::refused([] { randint({2}, 0, 3, {.dtype = DType::boolean}); }, "bool does not hold");
  test::refused([] { randint({2}, 0, 2050, {.dtype = DType::f16}); }, "f16 does not hold");
  test::refused([] { randint({2}, -(1 << 24) - 2, 0, {.dtype = DType::f32}); }, "f32 does not hold");
  test::refused([] { randint({2}, INT64_MAX - 1, INT64_MAX, {.dtype = DType::f64}); }, "f64 does not hold");
  test::refused([] { uniform_like(Tensor()); }, "[uniform_like] of an undefined tensor");
  test::refused([] { normal_like(ones({2}, {DType::i64})); }, "needs a floating dtype");
  test::refused([] { bernoulli({2}, 1.5); }, "probability is 1.5");
  test::refused([] { dropout(ones({2}), -1); }, "probability is -1");
  test::refused([] { permutation(-1); }, "-1 elements");
}

TEST_CASE("multinomial draws in proportion, without replacement each at most once, the same bits for one seed") {
  Generator rng(5), same(5);
  const Tensor chances = from_list({1.0f, 0.0f, 3.0f, 6.0f});
  const Tensor drawn = multinomial(chances, 20000, true, rng);
  CHECK(drawn.dtype() == DType::i64);
  CHECK(all(drawn == multinomial(chances, 20000, true, same)).item<bool>());
  const Tensor counts = cast(bincount(drawn, 4), DType::f32) / 20000;
  CHECK(max(abs(counts - chances / 10)).item() < 0.02);
  CHECK(counts[1].item() == 0);
  const Tensor rows = multinomial(expand(chances, {50, 4}), 3, false, rng);
  CHECK(rows.shape() == Shape::of(50, 3));
  CHECK(all(sort(rows).values == from_list<std::int64_t>({0, 2, 3})).item<bool>());
  auto compiled = compile([](const Tensor& chances, Generator& rng) { return multinomial(chances, 5, true, rng); });
  Generator again(7), eager(7);
  CHECK(all(compiled(chances, again) == multinomial(chances, 5, true, eager)).item<bool>());
  weft::test::refused([&] { multinomial(chances, 0); }, "a positive count");
  for (const Tensor& bad : {chances * 0, chances - 1, chances * NAN, chances / 0})
    weft::test::refused([&] { multinomial(bad, 2, true).eval(); }, "probabilities must be finite and not negative");
  weft::test::refused([&] { multinomial(chances, 4).eval(); }, "as many of a row positive as are drawn");
}

}  // namespace
}  // namespace weft
