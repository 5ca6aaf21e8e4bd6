// expect: weft: what host_call calls returns nothing, a Tensor, or a std::vector<Tensor>
#include "weft/effects.hpp"

int main() {
  weft::host_call([](const weft::Tensor& x) { return x.item(); }, weft::ones({}));
}
