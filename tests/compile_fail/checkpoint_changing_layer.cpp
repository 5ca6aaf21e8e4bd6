// expect: weft: a layer that changes is an argument: checkpoint(f)(layer, x)
#include <weft/checkpoint.hpp>
struct Counting {
  weft::Tensor operator()(const weft::Tensor& x) { return ++calls, x; }
  int calls = 0;
};
weft::Tensor f(weft::Tensor x) { return weft::checkpoint(Counting())(x); }
