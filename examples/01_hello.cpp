// Fuse a chain: three operations become one kernel. Prints what was compiled and where its source is.
#include <iostream>

#include <weft/weft.hpp>

using namespace weft;

int main() {
  auto f = compile([](const Tensor& x, const Tensor& y) { return tanh(x * y + 1) * 0.5; });

  Generator rng(42);
  Tensor x = normal({4, 5}, 0, 1, rng), y = normal({4, 5}, 0, 1, rng);
  std::cout << f(x, y) << "\n\n";

  Explanation what = explain(f, x, y);
  std::cout << "graph:\n" << what.graph << "\n";
  for (const auto& kernel : what.kernels) std::cout << kernel.source << "\n";
  std::cout << what.kernels.size() << " kernel, source in " << what.source_path << "\n";
}
