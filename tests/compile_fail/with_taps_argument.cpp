// expect: weft: with_taps(paths, f) calls f(): write with_taps({"name"}, [&] { return model(x); })
#include "weft/ops.hpp"
#include "weft/taps.hpp"

int main() {
  weft::with_taps({"h"}, [](const weft::Tensor& x) { return weft::tap("h", x); });
}
