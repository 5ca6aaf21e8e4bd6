// dynamic FUNCTION [calls]: a line of JSON: how often `FUNCTION` (softmax | transformer | cnn) is compiled over so many
// calls (10,000) of random shapes under the default options, and the median nanoseconds of a call with symbols and with
// numbers for its sizes, in turn: of a small shape, which is mostly dispatch, and of a large one, which is all kernels.
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

// Nanoseconds of a call of both functions, as a member of the line of JSON.
template <class Symbolic, class Static, class... Models>
void compare(const char* what, Symbolic& symbolic, Static& fixed, Sizes sizes, int repeats, const Models&... models) {
  const Tensor x = bench::random_normal(sizes, 3);
  std::vector<double> of_symbolic, of_fixed;
  const auto time = [&](auto& f) {
    const auto start = bench::Clock::now();
    for (int i = 0; i < repeats; ++i) f(models..., x).eval();
    return bench::seconds_since(start) * 1e9 / repeats;
  };
  time(symbolic), time(fixed);
  for (int i = 0; i < 51; ++i) of_symbolic.push_back(time(symbolic)), of_fixed.push_back(time(fixed));
  std::printf(", \"%s\": [%.6g, %.6g]", what, bench::median(of_symbolic), bench::median(of_fixed));
}

struct Sizing {
  Sizes small, large;
};

// `shape(shapes)` draws the sizes of x, the argument after `models`.
template <class F, class Shape, class... Models>
void run(F function, int calls, Shape shape, const Sizing& sizing, const Models&... models) {
  auto compiled = compile(function);
  Shapes shapes;
  for (int i = 0; i < calls; ++i) compiled(models..., ones(shape(shapes))).eval();
  auto fixed = compile(function, {.dynamic = false});
  std::printf("{\"compilations\": %zu", specialization_count(compiled));
  compare("small", compiled, fixed, sizing.small, 200, models...);
  compare("large", compiled, fixed, sizing.large, 1, models...);
  std::puts("}");
}

}  // namespace

int main(int count, char** arguments) {
  const char* const name = count > 1 ? arguments[1] : "";
  const int calls = count > 2 ? std::atoi(arguments[2]) : 10'000;
  if (!std::strcmp(name, "softmax")) {
    run(softmax_of, calls,
        [](Shapes& s) -> Sizes {
          return {s.between(2, 64), s.between(2, 512)};
        },
        {{2, 8}, {4096, 1024}});
  } else if (!std::strcmp(name, "transformer")) {
    const bench::Block block(32, 4, true, {});
    run(
        block_of, calls,
        [](Shapes& s) -> Sizes {
          return {s.between(2, 8), s.between(2, 48), 32};
        },
        {{2, 2, 32}, {16, 256, 32}}, block);
  } else if (!std::strcmp(name, "cnn")) {
    run(
        cnn_of, calls,
        [](Shapes& s) -> Sizes {
          return {s.between(2, 6), 3, s.between(8, 40), s.between(8, 40)};
        },
        {{2, 3, 8, 8}, {8, 3, 224, 224}}, Cnn());
  } else {
    std::fprintf(stderr, "dynamic softmax | transformer | cnn [calls]\n");
    return 2;
  }
}
