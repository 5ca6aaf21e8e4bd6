// expect: weft: compile() takes no member function: wrap it
#include "weft/compile.hpp"

struct Model {
  weft::Tensor forward(const weft::Tensor& x) const { return x; }
};
int main() { weft::compile(&Model::forward); }
