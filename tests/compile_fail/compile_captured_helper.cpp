// expect: A captured helper that captures nothing itself: make it static constexpr, or a function
#include "weft/compile.hpp"
#include "weft/ops.hpp"

int main() {
  auto helper = [](const weft::Tensor& x) { return x * 2; };
  auto f = weft::compile([helper](const weft::Tensor& x) { return helper(x) + 1; });
  f(weft::Tensor());
}
