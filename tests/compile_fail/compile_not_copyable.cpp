// expect: weft: a type that cannot be copied is taken by const& in a compiled function: take it by &
#include "weft/compile.hpp"

struct Pinned {
  weft::Tensor value;
  Pinned() = default;
  Pinned(Pinned&&) = default;
  WEFT_MEMBERS(value)
};
int main() {
  auto f = weft::compile([](const Pinned& p) { return p.value; });
  f(Pinned());
}
