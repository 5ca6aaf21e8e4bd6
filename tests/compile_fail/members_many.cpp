// expect: weft: a plain struct of more than 32 members: list them with WEFT_MEMBERS(a, b, ...) inside it
#include "weft/compile.hpp"

struct Model {
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, z, aa, ab, ac, ad, ae, af, ag;
  weft::Tensor operator()(const weft::Tensor& input) const { return a ? input : weft::Tensor(); }
};
int main() {
  Model model{};
  weft::compile(model);
}
