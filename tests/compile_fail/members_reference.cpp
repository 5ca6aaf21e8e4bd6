// expect: weft: the members of this plain struct cannot be listed
#include "weft/compile.hpp"

struct View {
  const weft::Tensor& value;
  int mode;
};
int main() {
  auto f = weft::compile([](const View& view) { return view.mode ? view.value : weft::Tensor(); });
  weft::Tensor x;
  f(View{x, 1});
}
