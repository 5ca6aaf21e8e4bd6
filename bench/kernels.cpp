// kernels pointwise|softmax compiled|eager: large memory-bound functions on random f32, taking turns (support.hpp).
#include <cstring>

#include "support.hpp"

using weft::Tensor;

namespace {
constexpr auto chain = [](const Tensor& x, const Tensor& y, const Tensor& z) {
  return tanh(x * y + z) * sigmoid(x) + exp(-y * y) - gelu(z);
};
constexpr auto rows = [](const Tensor& x) { return weft::softmax(x); };

// The result of the step before goes back when the next one replaces it, as a training loop's does.
template <class F, class... Arguments>
void measure(F f, bool eager, const Arguments&... argument) {
  Tensor result;
  if (eager) {
    bench::take_turns([&] { (result = f(argument...)).eval(); });
  } else {
    auto compiled = weft::compile(f);
    bench::take_turns([&] { (result = compiled(argument...)).eval(); });
  }
}
}  // namespace

int main(int count, char** arguments) {
  bool eager = count > 2 && !std::strcmp(arguments[2], "eager");
  if (count > 1 && !std::strcmp(arguments[1], "pointwise")) {
    std::int64_t size = 16 << 20;
    measure(chain, eager, bench::random_normal({size}, 1), bench::random_normal({size}, 2),
            bench::random_normal({size}, 3));
  } else {
    measure(rows, eager, bench::random_normal({4096, 4096}, 1));
  }
}
