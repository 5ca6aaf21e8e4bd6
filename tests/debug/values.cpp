// What a debugger is asked to show (tests/debug/check).
#include <weft/compile.hpp>
#include <weft/ops.hpp>

using namespace weft;

__attribute__((noinline)) void stop() { asm volatile(""); }

int main() {
  const Tensor x = from_list<float>({1, 2, 3}), undefined;
  const Tensor lazy = relu(x);
  const Tensor many = reshape(arange(12) + 1, {3, 4});
  many.eval();
  Param parameter(x);
  parameter.frozen = true;
  const Scalar rate = 0.5;
  const Shape shape = many.shape();
  const Dim four = shape[1], less = -four;
  stop();
  const auto f = compile(
      [](const Tensor& y) {
        const Dim rows = y.size(0), twice = rows * 2 + 1;
        stop();
        return y * rows + twice;
      },
      {.dynamic = true});
  f(x).eval();
  return undefined.defined() || less == four || rate.item() == 0 || lazy.rank() == 0 || parameter.frozen ? 0 : 1;
}
