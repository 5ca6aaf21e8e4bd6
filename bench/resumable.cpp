// resumable CASE: a training step of an MLP, 784-256-10, 64 rows, that reads its hidden values in the middle, on the
// host, and prints its loss at the end; or what it is measured against.
//   print    the step as one compiled function
//   halves   what lies before and after the reading, compiled by hand: the second half has its own backward pass
#include <cstdio>

#include "support.hpp"

using namespace weft;

namespace {

struct Mlp {
  Param w1, b1, w2, b2;
  WEFT_MEMBERS(w1, b1, w2, b2)
};
Mlp made() {
  return {Param((bench::random_normal({784, 256}, 1) * 0.05).eval()), Param(zeros({256}).eval()),
          Param((bench::random_normal({256, 10}, 2) * 0.05).eval()), Param(zeros({10}).eval())};
}

char line[64];
void print(const Tensor& loss) { std::snprintf(line, sizeof line, "loss %g\n", loss.item()); }
double seen = 0;
void look_at(const Tensor& hidden) {
  seen = 0;
  for (const float value : hidden.data<float>()) seen = std::max(seen, static_cast<double>(value));
}

Tensor hidden_of(const Mlp& m, const Tensor& x) { return relu(matmul(x, m.w1) + m.b1); }
Tensor loss_of(const Tensor& hidden, const Param& w2, const Param& b2, const Tensor& y) {
  return nn::cross_entropy(matmul(hidden, w2) + b2, y);
}
constexpr float rate = 0.01f;

void step(Mlp& m, const Tensor& x, const Tensor& y) {
  const auto [loss, g] = value_and_grad(
      [&](const Mlp& m) {
        const Tensor hidden = hidden_of(m, x);
        look_at(hidden);
        return loss_of(hidden, m.w2, m.b2, y);
      },
      m);
  print(loss);
  m.w1 = m.w1 - g.w1 * rate;
  m.b1 = m.b1 - g.b1 * rate;
  m.w2 = m.w2 - g.w2 * rate;
  m.b2 = m.b2 - g.b2 * rate;
}

struct Rest {
  Param hidden, w2, b2;
};
Tensor second_half(Mlp& m, const Tensor& hidden, const Tensor& x, const Tensor& y) {
  const auto [loss, g] =
      value_and_grad([&](const Rest& r) { return loss_of(r.hidden, r.w2, r.b2, y); }, Rest{Param(hidden), m.w2, m.b2});
  const Tensor down = where(hidden > 0, g.hidden, 0);
  m.w1 = m.w1 - matmul(transpose(x), down) * rate;
  m.b1 = m.b1 - sum(down, 0) * rate;
  m.w2 = m.w2 - g.w2 * rate;
  m.b2 = m.b2 - g.b2 * rate;
  return loss;
}

}  // namespace

int main(int count, char** arguments) {
  const std::string name = count > 1 ? arguments[1] : "";
  const Tensor x = bench::random_normal({64, 784}, 3).eval();
  const Tensor y = (cast(abs(bench::random_normal({64}, 4)) * 1000, DType::i64) % 10).eval();
  Mlp model = made();
  const auto finish = [&] { bench::eval_all(model); };
  if (name == "print") {
    auto f = compile(step);
    bench::take_turns([&] {
      f(model, x, y);
      finish();
    });
  } else if (name == "halves") {
    auto first = compile(hidden_of);
    auto second = compile(second_half);
    bench::take_turns([&] {
      const Tensor hidden = first(model, x);
      look_at(hidden);
      print(second(model, hidden, x, y));
      finish();
    });
  } else {
    std::fprintf(stderr, "resumable print|halves\n");
    return 2;
  }
}
