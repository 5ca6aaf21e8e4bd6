// What recording one operation costs, in nanoseconds: the median over traces of a function of 1000 operations, each
// divided by that number. The function is traced on every call (Check::every_call) and times its own recording.
#include <cstdio>

#include "support.hpp"

namespace {

constexpr int rounds = 200, operations_a_round = 5;
double last_trace;  // nanoseconds an operation

weft::Tensor record(const weft::Tensor& x, const weft::Tensor& w) {
  weft::Tensor y = x;
  auto start = bench::Clock::now();
  for (int i = 0; i < rounds; ++i) y = maximum(tanh(y * w + 1.5) - x, w);
  last_trace = bench::seconds_since(start) * 1e9 / (rounds * operations_a_round);
  return y;
}

}  // namespace

int main() {
  auto f = weft::compile(&record, {.check = weft::Check::every_call, .backend = weft::Backend::eager});
  weft::Tensor x = bench::random_normal({4, 8}, 1), w = bench::random_normal({8}, 2);
  std::vector<double> times;
  for (int i = 0; i < 301; ++i) {
    f(x, w).eval();
    times.push_back(last_trace);
  }
  std::printf("%.6g\n", bench::median(times));
}
