// expect: weft: compile(f, options) takes CompileOptions after the function
#include "weft/compile.hpp"

int main() {
  weft::compile([](const weft::Tensor& x) { return x; }, "dynamic");
}
