// expect: weft: a transform calls f(at) with what it differentiates at, which f only reads
#include <weft/transforms.hpp>
void f(weft::Tensor x) {
  weft::jvp([](weft::Tensor& a) { return a * 2; }, x, x);
}
