// expect: is not a member of 'std'
// without: f must take it
#include "weft/grad.hpp"

int main() {
  const double two = 2;
  grad([&](const weft::Tensor& x) { return x * std::no_such_function(two); }, weft::ones({3}));
}
