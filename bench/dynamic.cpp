// dynamic FUNCTION [calls]: a line of JSON: how often `FUNCTION` (softmax | transformer | cnn) is compiled over so many
// calls (10,000) of random shapes under the default options, and what of a call is not its kernels: the median
// nanoseconds of a call of one small shape as a symbol and as numbers, in turn.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>

#include "support.hpp"
#include "transformer.hpp"

namespace {

using namespace weft;

class Shapes {
 public:
  std::int64_t between(std::int64_t least, std::int64_t greatest) {
    return std::uniform_int_distribution<std::int64_t>(least, greatest)(bits_);
  }

 private:
  std::mt19937 bits_{1};
};

struct Cnn {
  Param first = bench::random_normal({8, 3, 3, 3}, 1), second = bench::random_normal({16, 8, 3, 3}, 2);
  nn::Linear out = nn::Linear(16, 10);
  Tensor operator()(const Tensor& x) const {
    const Tensor once = relu(conv2d(x, first, {.stride = 2, .padding = 1}));
    const Tensor twice = relu(conv2d(once, second, {.stride = 2, .padding = 1}));
    return out(mean(twice, {2, 3}));
  }
  WEFT_MEMBERS(first, second, out)
};

constexpr auto softmax_of = [](const Tensor& x) { return softmax(x, -1); };
constexpr auto block_of = [](const bench::Block& block, const Tensor& x) { return block(x); };
constexpr auto cnn_of = [](const Cnn& cnn, const Tensor& x) { return cnn(x); };

// `shape(shapes)` draws the sizes of x; those of the smallest call are `small`. `models` come before it.
template <class F, class Shape, class... Models>
void run(F function, int calls, Shape shape, Sizes small, const Models&... models) {
  auto compiled = compile(function);
  Shapes shapes;
  for (int i = 0; i < calls; ++i) compiled(models..., ones(shape(shapes))).eval();

  auto fixed = compile(function, {.dynamic = false});
  const Tensor x = bench::random_normal(small, 3);
  std::vector<double> symbolic, numbers;
  const auto time = [&](auto& f) {
    constexpr int repeats = 200;
    const auto start = bench::Clock::now();
    for (int i = 0; i < repeats; ++i) f(models..., x).eval();
    return bench::seconds_since(start) * 1e9 / repeats;
  };
  time(compiled), time(fixed);
  for (int i = 0; i < 51; ++i) symbolic.push_back(time(compiled)), numbers.push_back(time(fixed));
  std::printf("{\"compilations\": %zu, \"symbolic_ns\": %.6g, \"static_ns\": %.6g}\n", specialization_count(compiled),
              bench::median(symbolic), bench::median(numbers));
}

}  // namespace

int main(int count, char** arguments) {
  const char* const name = count > 1 ? arguments[1] : "";
  const int calls = count > 2 ? std::atoi(arguments[2]) : 10'000;
  if (!std::strcmp(name, "softmax")) {
    run(softmax_of, calls, [](Shapes& s) -> Sizes { return {s.between(2, 64), s.between(2, 512)}; }, {2, 8});
  } else if (!std::strcmp(name, "transformer")) {
    const bench::Block block(32, 4, true, {});
    run(
        block_of, calls,
        [](Shapes& s) -> Sizes {
          return {s.between(2, 8), s.between(2, 48), 32};
        },
        {2, 2, 32}, block);
  } else if (!std::strcmp(name, "cnn")) {
    run(
        cnn_of, calls,
        [](Shapes& s) -> Sizes {
          return {s.between(2, 6), 3, s.between(8, 40), s.between(8, 40)};
        },
        {2, 3, 8, 8}, Cnn());
  } else {
    std::fprintf(stderr, "dynamic softmax | transformer | cnn [calls]\n");
    return 2;
  }
}
