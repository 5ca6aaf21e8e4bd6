// What a training program may get wrong around derivatives: each is one sentence with the user's line, or PyTorch's
// value, from a plain function and from a compiled one.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <functional>
#include <tuple>
#include <utility>

#include "tests/record/refused.hpp"
#include "tests/trace/support.hpp"
#include "weft/checkpoint.hpp"
#include "weft/compile.hpp"
#include "weft/effects.hpp"
#include "weft/grad.hpp"
#include "weft/grad_scaler.hpp"
#include "weft/loops.hpp"
#include "weft/nn.hpp"
#include "weft/optim.hpp"
#include "weft/random.hpp"
#include "weft/transforms.hpp"
#include "weft/vmap.hpp"

using namespace weft;
using namespace trace_test;

namespace {

// f(x), plain and compiled, is an Error of one sentence with these words and a line of this file.
template <class F>
void refuses(F f, const Tensor& x, const char* words) {
  const auto check = [&](const std::string& message) {
    CAPTURE(words);
    CAPTURE(message);
    CHECK(contains(message, words));
    CHECK(contains(message, ", at bad_input_test.cpp:"));
    CHECK(message.find('\n') == std::string::npos);
  };
  check(message_of([&] { f(x).eval(); }));
  const auto compiled = compile(f);
  check(message_of([&] { compiled(x).eval(); }));
}

// f(x) plain, and compiled.
template <class F>
std::vector<Tensor> both(F f, const Tensor& x) {
  return {f(x), compile(f)(x)};
}

struct Pair {
  Param used = ones({3}), idle = ones({3});
};

}  // namespace

TEST_CASE("a loss that is not one number") {
  refuses([](const Tensor& x) { return grad([](const Tensor& x) { return x * 2; }, x); }, ones({3}),
          "[grad] the loss must be one number, it is f32[3]");
  const Tensor x = ones({3});
  const auto twice = [](const Tensor& x) { return x * 2; };
  const std::string words =
      "] the loss must be one number, it is f32[3]: reduce it with sum or mean, at bad_input_test.cpp:";
  CHECK(message_of([&] { grad(twice, x); }) == "[grad" + words + std::to_string(__LINE__));
  CHECK(message_of([&] { value_and_grad(twice, x); }) == "[value_and_grad" + words + std::to_string(__LINE__));
}

TEST_CASE("integers are differentiated") {
  const Tensor integers = arange(3);
  refuses([](const Tensor& x) { return grad([](const Tensor& x) { return sum(x); }, x); }, integers,
          "the argument is i64[3]: only floating");
  refuses([](const Tensor& x) { return jvp([](const Tensor& x) { return x * 2; }, x, x).tangent; }, integers,
          "only floating values have gradients");
  refuses([](const Tensor& x) { return grad([](const Tensor& x) { return sum(cast(x, DType::i64)); }, x); }, ones({3}),
          "must be a floating number, it is i64[]");
}

TEST_CASE("a parameter that does not reach the loss: zeros, and an Error under strict") {
  static constexpr auto slopes = [](const Tensor& x, bool strict) {
    const Pair found = grad([&](const Pair& p) { return sum(p.used * x); }, Pair(), GradOptions{.strict = strict});
    return found.used + 10 * found.idle;
  };
  for (const Tensor& found : both([](const Tensor& x) { return slopes(x, false); }, vector_of({1, 2, 3})))
    CHECK(numbers_of(found) == Numbers{1, 2, 3});
  refuses([](const Tensor& x) { return slopes(x, true); }, ones({3}),
          "[grad] the loss does not depend on idle, which is an error under strict");
  refuses([](const Tensor& x) { return grad([](const Tensor& a) { return sum(stop_gradient(a)); }, x); }, ones({3}),
          "the loss does not depend on what it is differentiated with respect to");
}

// A body gives results of which each depends on some of the operands.
TEST_CASE("a parameter that reaches another result of a checkpoint, a loop or a choice: an Error under strict") {
  static constexpr auto in_checkpoint = [](const Pair& p) {
    return checkpoint([](const Pair& q) { return std::pair<Tensor, Tensor>{q.used * 2, q.idle * 3}; })(p);
  };
  static constexpr auto in_loop = [](const Pair& p) {
    using Two = std::pair<Tensor, Tensor>;
    return fori(
        0, 2,
        [](Index, Two s) {
          return Two{s.first * 2, s.second * 3};
        },
        Two{p.used, p.idle});
  };
  static constexpr auto in_choice = [](const Pair& p) {
    const auto branch = [](const Tensor& a, const Tensor& b) { return std::pair<Tensor, Tensor>{a * 2, b * 3}; };
    return cond(sum(p.used) > 0, branch, branch, p.used.tensor(), p.idle.tensor());
  };
  const auto check = [](auto results) {
    static constexpr decltype(results) of = {};
    static constexpr auto slopes = [](const Tensor& x, bool strict) {
      const auto loss = [&](const Pair& p) { return sum(of(p).first * x); };
      const Pair found = grad(loss, Pair(), GradOptions{.strict = strict});
      return found.used * 1 + found.idle;
    };
    for (const Tensor& found : both([](const Tensor& x) { return slopes(x, false); }, vector_of({1, 2, 3})))
      CHECK(numbers_of(found)[2] > 0);
    refuses([](const Tensor& x) { return slopes(x, true); }, ones({3}),
            "[grad] the loss does not depend on idle, which is an error under strict");
  };
  check(in_checkpoint);
  check(in_loop);
  check(in_choice);
  // A carry of which another one is made reaches that.
  const auto passed_on = [](const Pair& p) {
    using Three = std::array<Tensor, 3>;
    const auto next = [](Index, Three s) { return Three{s[0], s[0] * 2, s[1] + s[2]}; };
    return sum(fori(0, 3, next, Three{p.used, p.used, p.idle})[2]);
  };
  CHECK(numbers_of(grad(passed_on, Pair(), {.strict = true}).used)[0] != 0);
}

TEST_CASE("gradients that are NaN or infinite under a GradScaler: the step is skipped") {
  const auto step = [](Pair& model, optim::SGD& opt, GradScaler& scaler, const Tensor& x) {
    Pair gradients = grad([&](const Pair& m) { return scaler.scale(sum(m.used * x) + sum(m.idle)); }, model);
    gradients = scaler.unscale(gradients);
    scaler.step(opt, model, gradients);
    scaler.update();
    return sum(model.used);
  };
  auto compiled = compile(step);
  for (const float bad : {NAN, HUGE_VALF, -HUGE_VALF})
    for (const bool is_compiled : {false, true}) {
      CAPTURE(bad);
      CAPTURE(is_compiled);
      Pair model;
      optim::SGD opt(model, {.lr = 1});
      GradScaler scaler;
      const auto call = [&](const Tensor& x) {
        return is_compiled ? compiled(model, opt, scaler, x) : step(model, opt, scaler, x);
      };
      CHECK(call(vector_of({1, 1, 1})).item<float>() == 0);
      CHECK(call(vector_of({1, bad, 1})).item<float>() == 0);
      CHECK(numbers_of(model.idle) == Numbers{0, 0, 0});
      CHECK(scaler.current_scale().item<double>() == 32768);
      CHECK(call(vector_of({1, 2, 3})).item<float>() == -6);
    }
}

TEST_CASE("a pullback that is called after its inputs were donated has the values that they had") {
  // A donated argument is written in place only where nobody else holds its memory: the pullback does.
  auto add = compile([](Tensor& state, const Tensor& by) { state = state + by; });
  auto take = compile([](Tensor x) { return x * 0; });
  const auto cubes = [](const Tensor& x) { return x * x * x; };
  const auto compiled_cubes = compile(cubes);
  const auto check = [&](auto f) {
    Tensor x = vector_of({1, 2, 3}).eval();
    const auto pullback = vjp(f, x).pullback;
    add(x, vector_of({10, 10, 10}));
    CHECK(numbers_of(x) == Numbers{11, 12, 13});
    take(std::move(x)).eval();
    CHECK(numbers_of(pullback(ones({3}))) == Numbers{3, 12, 27});
    CHECK(numbers_of(pullback(ones({3}) * 2)) == Numbers{6, 24, 54});
  };
  check(cubes);
  check([&](const Tensor& x) { return compiled_cubes(x); });
}

TEST_CASE("a second derivative through a custom_vjp whose rule has none") {
  static constexpr auto slope = [](const Tensor& x) {
    const auto square = custom_vjp([](const Tensor& a) { return a * a; },
                                   [](const Tensor& a) {
                                     return std::pair{a * a, a};
                                   },
                                   [](const Tensor& a, const Tensor& g) {
                                     return g * host_call(
                                                    {a.shape(), a.dtype()}, [](const Tensor& b) { return b * 2; }, a);
                                   });
    return grad([&](const Tensor& b) { return sum(square(b)); }, x);
  };
  for (const Tensor& found : both(slope, vector_of({1, 2, 3}))) CHECK(numbers_of(found) == Numbers{2, 4, 6});
  refuses([](const Tensor& x) { return grad([](const Tensor& a) { return sum(slope(a)); }, x); }, ones({3}),
          "[host_call] the function has no derivative");
}

TEST_CASE("vmap over axes of different sizes, and over a decision") {
  refuses(
      [](const Tensor& x) {
        return vmap([](const Tensor& a, const Tensor& b) { return a + b; })(x, ones({5, 6}));
      },
      ones({4, 6}), "the numbers of examples differ: 4 along axis 0 of argument 0, f32[4,6], and 5");
  refuses([](const Tensor& x) { return vmap([](const Tensor& a) { return sum(a) > 0 ? a : -a; })(x); }, ones({4, 6}),
          "choose with where");
}

TEST_CASE("a checkpoint around a function that draws from the default generator has one mask for value and gradient") {
  const auto found = [](const Tensor& x) {
    const auto dropped = checkpoint([](const Tensor& x) { return nn::dropout(x * x, 0.5, true); });
    auto [value, slope] = value_and_grad(
        [&](const Tensor& x) {
          const Tensor y = dropped(x);
          return std::pair{sum(y), y};
        },
        x);
    return concat({value.second, slope}, 0);
  };
  const auto compiled = compile(found);
  for (const bool is_compiled : {false, true}) {
    seed(5);
    const Tensor x = full({64}, 3.0), all = is_compiled ? compiled(x) : found(x);
    const Numbers numbers = numbers_of(all);
    int kept = 0;
    for (std::size_t i = 0; i < 64; ++i) {
      kept += numbers[i] != 0;
      CHECK(numbers[64 + i] == (numbers[i] != 0 ? 12 : 0));  // 2 x / (1 - p), and the value is x^2 / (1 - p)
    }
    CHECK(kept > 10);
    CHECK(kept < 54);
    // The generator goes on as without a checkpoint.
    const Tensor next = uniform({4});
    seed(5);
    nn::dropout(x, 0.5, true).eval();
    CHECK(text_of(uniform({4})) == text_of(next));
  }
}
