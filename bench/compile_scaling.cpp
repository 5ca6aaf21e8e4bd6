// compile_scaling chain|wide|quotients OPERATIONS: seconds of a function's first call, from its trace to its result,
// and without the C++ compiler: a line of JSON. A chain is one operation after another; wide is a tree over as many
// leaves as it has inner operations; quotients are a sum of so many calls of floor_divide. Constants differ, so that no
// stretch of either is the same kernel as another.
#include <cstdlib>
#include <cstring>

#include "runtime/host/jit.hpp"
#include "support.hpp"

using weft::Tensor;

namespace {

int operations = 1000;

Tensor chain(const Tensor& x, const Tensor& y) {
  Tensor z = x;
  for (int i = 0; i < operations; ++i) {
    switch (i % 4) {
      case 0: z = z * y; break;
      case 1: z = z + x; break;
      case 2: z = maximum(z, y); break;
      default: z = z - (0.5 + i); break;
    }
  }
  return z;
}

Tensor wide(const Tensor& x, const Tensor& y) {
  std::vector<Tensor> values;
  for (int i = 0; i < operations / 2; ++i) values.push_back((i % 2 ? x : y) * (1.0 + i));
  while (values.size() > 1) {
    std::size_t half = 0;
    for (std::size_t i = 0; i + 1 < values.size(); i += 2) values[half++] = values[i] + values[i + 1];
    if (values.size() % 2) values[half++] = values.back();
    values.resize(half);
  }
  return values.front();
}

Tensor quotients(const Tensor& x, const Tensor& y) {
  Tensor sum = x;
  for (int i = 0; i < operations; ++i) sum = sum + floor_divide(x + (0.5 + i), y);
  return sum;
}

}  // namespace

int main(int count, char** arguments) {
  if (count > 2) operations = std::atoi(arguments[2]);
  const auto is = [&](const char* name) { return count > 1 && !std::strcmp(arguments[1], name); };
  Tensor x = bench::random_normal({1024}, 1), y = bench::random_normal({1024}, 2);
  auto f = weft::compile(is("wide") ? &wide : is("quotients") ? &quotients : &chain, {.check = weft::Check::never});
  auto start = bench::Clock::now();
  f(x, y).eval();
  double total = bench::seconds_since(start), compiler = weft::jit_counts().compile_seconds;
  std::printf("{\"total\":%.6f,\"graph\":%.6f}\n", total, total - compiler);
}
