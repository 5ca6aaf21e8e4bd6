// Stochastic rounding of bf16 parameters: unbiased, decided by the seed, the same bits eagerly and compiled.
#include <doctest/doctest.h>

#include <cmath>
#include <weft/weft.hpp>

#include "tests/needs_compiler.hpp"

namespace weft {
namespace {

using test::a_compiler;
using test::needs;

struct Model {
  Param w;
};
Tensor bf16(double value, std::int64_t count) { return full({count}, value, {DType::bf16}); }
bool same_bits(const Tensor& a, const Tensor& b) { return all((a == b) | (isnan(a) & isnan(b))).item<bool>(); }
double mean_of(const Tensor& x) { return mean(cast(x, DType::f64)).item<double>(); }

}  // namespace

TEST_CASE("the mean of parameters that are rounded at random is where f32 leads; to the nearest they stay") {
  constexpr std::int64_t count = 1 << 16;
  constexpr int steps = 32;
  // Each step takes away 1/8 of the last bit of numbers in [0.5, 1), 2^-8.
  const double step = std::ldexp(1, -11);
  for (const double start : {1.0, -1.0}) {
    Model nearest{bf16(start, count)}, random = nearest;
    optim::SGD plain(nearest, {.lr = step}), own(random, {.lr = step, .stochastic_rounding = 5});
    const Model slope{bf16(start, count)};
    for (int i = 0; i < steps; ++i) plain.update(nearest, slope), own.update(random, slope);
    CHECK(same_bits(nearest.w, bf16(start, count)));
    CHECK(random.w->dtype() == DType::bf16);
    // The deviation of one element is below sqrt(steps) / 2 of the last bit, that of the mean 1 / 256 of it.
    const double deviation = std::sqrt(steps) / 2 * std::ldexp(1, -8) / std::sqrt(static_cast<double>(count));
    CHECK(std::abs(mean_of(random.w) - start * (1 - steps * step)) < 5 * deviation);
  }
}

TEST_CASE("one rounding goes to the two neighbours alone, with the chances of the distance") {
  constexpr std::int64_t count = 1 << 18;
  Model model{bf16(1, count)};
  optim::SGD opt(model, {.lr = std::ldexp(1, -9), .stochastic_rounding = 1});  // to 1 + 2^-9; the next one is 1 + 2^-7
  opt.update(model, Model{bf16(-1, count)});
  const Tensor up = cast(model.w, DType::f32) == 1 + std::ldexp(1, -7);
  CHECK(all(up | (model.w == 1)).item<bool>());
  CHECK(std::abs(mean_of(cast(up, DType::f64)) - 0.25) < 5 * std::sqrt(0.25 * 0.75 / count));
}

TEST_CASE("what bf16 holds stays as it is, and so does NaN") {
  Model model{cast(from_list<float>({1, -3, 0, -0.0f, 0x1.fep127f, -0x1.fep127f, NAN, 0x1p-133f}, {8}), DType::bf16)};
  const Model before = model;
  optim::SGD opt(model, {.lr = 1, .stochastic_rounding = 1});
  opt.update(model, Model{bf16(0, 8)});
  CHECK(same_bits(model.w, before.w));
}

TEST_CASE("the seed decides how parameters are rounded, eagerly and compiled" * needs(a_compiler)) {
  const auto run = [](std::uint64_t seed, bool compiled) {
    Generator numbers(3);
    Model model{cast(normal({1000}, 0, 1, numbers), DType::bf16)};
    optim::AdamW opt(model, {.lr = 1e-3, .stochastic_rounding = seed});
    auto step = [](Model& model, optim::AdamW& opt, const Tensor& slope) { opt.update(model, Model{slope}); };
    auto fast = compile(step);
    for (int i = 0; i < 5; ++i) {
      const Tensor slope = cast(normal({1000}, 0, 1, numbers), DType::bf16).eval();
      compiled ? fast(model, opt, slope) : step(model, opt, slope);
    }
    return model.w.tensor();
  };
  CHECK(same_bits(run(1, false), run(1, false)));
  CHECK(same_bits(run(1, false), run(1, true)));
  CHECK(!same_bits(run(1, false), run(2, false)));
}

TEST_CASE("rows of a sparse gradient are rounded at random, others stay") {
  struct Table {
    nn::Embedding table{100, 4, {.sparse = true, .options = {DType::bf16}}};
  } model;
  const Tensor before = model.table.weight;
  optim::SGD opt(model, {.lr = 1e-3, .stochastic_rounding = 1});
  const Tensor rows = from_list<std::int64_t>({3, 7}, {2});
  for (int i = 0; i < 20; ++i) opt.update(model, grad([&](const Table& m) { return sum(m.table(rows)); }, model));
  const Tensor moved = any(model.table.weight != before, 1);
  CHECK(sum(cast(moved, DType::i64)).item<std::int64_t>() == 2);
}

TEST_CASE("f32 parameters are as without stochastic rounding") {
  Model a{ones({8})}, b = a;
  optim::SGD plain(a, {.lr = 1e-3}), own(b, {.lr = 1e-3, .stochastic_rounding = 1});
  plain.update(a, Model{ones({8})}), own.update(b, Model{ones({8})});
  CHECK(same_bits(a.w, b.w));
}

}  // namespace weft
