// expect: weft: host_call calls a lambda that captures nothing, or a function: a graph outlives what a lambda captures.
#include "weft/effects.hpp"

int main() {
  int calls = 0;
  weft::host_call([&](const weft::Tensor&) { ++calls; }, weft::ones({3}));
}
