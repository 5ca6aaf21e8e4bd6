// A run whose page tests/debug/run_page looks at: training, a function that is compiled again, a loop, a fork.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <weft/weft.hpp>

using namespace weft;

struct Mlp {
  nn::Linear a, b;
  Mlp() : a(64, 128), b(128, 10) {}
  Tensor operator()(const Tensor& x) const { return b(relu(a(x))); }
  WEFT_MEMBERS(a, b)
};

int main(int count, char** words) {
  Generator g(3);
  Mlp model;
  optim::SGD optimizer(model, {.lr = 0.1});
  auto step = compile([](Mlp& m, optim::SGD& optimizer, const Tensor& x, const Tensor& y) {
    auto [loss, grads] = value_and_grad([&](const Mlp& m) { return nn::cross_entropy(m(x), y); }, m);
    optimizer.update(m, grads);
    return loss;
  });
  const Tensor x = normal({32, 64}, 0, 1, g), y = randint({32}, 0, 10, g);
  for (int i = 0; i < 10; ++i) step(model, optimizer, x, y).item();
  const auto scaled = compile([](const Tensor& x, double by) { return exp(x * by); });
  for (const double by : {1.0, 2.0, 3.0}) scaled(x, by).eval();
  const auto sums = compile([](const Tensor& x) {
    return scan([](const Tensor& sum, const Tensor& row) { return std::pair(sum + row, tanh(sum)); }, zeros({64}), x)
        .second;
  });
  sums(x).eval();
  const Tensor large = arange(1 << 20) * 2;
  large.eval();
  if (const pid_t child = fork(); child == 0) {
    scaled(x, 1.0).eval();
    std::exit(0);
  } else {
    waitpid(child, nullptr, 0);
  }
  if (count > 1 && std::strcmp(words[1], "killed") == 0) std::abort();
}
