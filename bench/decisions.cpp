// decisions CASE: a compiled function that reads values, or what it is measured against, taking turns (support.hpp).
//   early-exit    an encoder of 12 layers, d128, B8 T64, that leaves when its head is sure; here after 4 layers
//   four-layers   the first 4 layers and the head
//   newton        square roots by Newton's method until they are exact enough, 5 to 50 rounds, with a host loop
//   newton-while  the same with while_loop
//   branch        one of two formulas on 16 floats, by the sign of their sum: a call each way
//   branch-select the same with auto_select: both of them in one segment
//   plateau       a step of training 8 weights, whose rate falls where the loss does not, twice a decision
//   plateau-select the same with auto_select
//   plain         the first of the formulas, without a decision
#include <cstring>

#include "decisions.hpp"
#include "examples/support/deciding.hpp"
#include "weft/loops.hpp"

using namespace weft;

namespace {

using bench::all_layers, bench::branch, bench::early_exit, bench::Encoder;

// deciding::square_root by while_loop.
Tensor newton_while(const Tensor& a) {
  return while_loop([&](const Tensor& x) { return abs(x * x - a) > a * 1e-6; },
                    [&](const Tensor& x) { return (x + a / x) / 2; }, a);
}

Tensor plain(const Tensor& x) { return (x + 1) * 2; }

struct Fit {
  Tensor w = zeros({8}), best = full({}, 1e9), rate = full({}, 0.05), waited = zeros({});
  WEFT_MEMBERS(w, best, rate, waited)
};
Tensor plateau(Fit& fit, const Tensor& x, const Tensor& y) {
  auto [loss, gradient] = value_and_grad([&](const Tensor& w) { return mean(square(sum(x * w, 1) - y)); }, fit.w);
  if (loss < fit.best * 0.999) {
    fit.best = loss;
    fit.waited = zeros({});
  } else {
    fit.waited = fit.waited + 1;
    if (fit.waited > 4) {
      fit.rate = fit.rate * 0.5;
      fit.waited = zeros({});
    }
  }
  fit.w = fit.w - gradient * fit.rate;
  return loss;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string name = count > 1 ? arguments[1] : "";
  const Tensor given = bench::random_normal({8, 64, 128}, 1);
  if (name == "early-exit") {
    const Encoder model(12);
    const Tensor sure = from_list<float>({2, 2, 2, 0, 2, 2, 2, 2, 2, 2, 2, 2});
    auto f = compile(early_exit);
    bench::take_turns([&] { f(model, given, sure).eval(); });
  } else if (name == "four-layers") {
    const Encoder model(4);
    auto f = compile(all_layers);
    bench::take_turns([&] { f(model, given).eval(); });
  } else if (name == "newton" || name == "newton-while") {
    std::vector<Tensor> numbers;
    for (const float a : {2.f, 1e3f, 1e6f, 1e12f, 1e24f, 30.f, 1e9f, 1e-3f}) numbers.push_back(full({}, a).eval());
    const auto all = [&](const auto& f) {
      for (const Tensor& a : numbers) f(a).eval();
    };
    if (name == "newton") {
      auto f = compile(deciding::square_root);
      bench::take_turns([&] { all(f); }, static_cast<int>(numbers.size()));
    } else {
      auto f = compile(newton_while);
      bench::take_turns([&] { all(f); }, static_cast<int>(numbers.size()));
    }
  } else if (name == "plateau" || name == "plateau-select") {
    auto f = compile(plateau, {.auto_select = name == "plateau-select"});
    const Tensor x = bench::random_normal({16, 8}, 2).eval(), y = sum(x, 1).eval(), other = (y * -3).eval();
    Fit fit;
    bench::take_turns(
        [&] {
          fit = Fit();
          for (int i = 0; i < 100; ++i) f(fit, x, i % 10 < 3 ? y : other).eval();
        },
        100);
  } else if (name == "branch" || name == "branch-select" || name == "plain") {
    const Tensor up = full({16}, 0.5).eval(), down = full({16}, -0.5).eval();
    const auto many = [&](const auto& f) {
      for (int i = 0; i < 500; ++i) f(up).eval(), f(down).eval();
    };
    if (name != "plain") {
      auto f = compile(branch, {.auto_select = name == "branch-select"});
      bench::take_turns([&] { many(f); }, 1000);
    } else {
      auto f = compile(plain);
      bench::take_turns([&] { many(f); }, 1000);
    }
  } else {
    std::fprintf(
        stderr,
        "decisions early-exit|four-layers|newton|newton-while|branch|branch-select|plain|plateau|plateau-select\n");
    return 2;
  }
}
