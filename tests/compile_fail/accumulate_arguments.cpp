// expect: weft: accumulate(n, f, model, batch...) calls f(model, part...)
#include <weft/accumulate.hpp>
void f(weft::Param w, weft::Tensor x) {
  auto [loss, gradient] = weft::accumulate(
      2, [](const weft::Param& p, const weft::Tensor& a) { return sum(a * p); }, w, x, x);
}
