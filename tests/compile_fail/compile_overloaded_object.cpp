// expect: weft: compile() takes callables without captures
#include "weft/compile.hpp"
#include "weft/ops.hpp"

using weft::Tensor;

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

int main() {
  double by = 2;
  weft::compile(
      Overloaded{[by](const Tensor& x) { return x * by; }, [](const Tensor& x, const Tensor& y) { return x + y; }});
}
