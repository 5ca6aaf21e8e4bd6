// expect: both branches return values of one type
#include "weft/loops.hpp"

void chosen(const weft::Tensor& x) {
  const auto pair = [](const weft::Tensor& a) { return std::pair{a, a}; };
  weft::cond(
      weft::sum(x) > 0, [](const weft::Tensor& a) { return a; }, pair, x);
}
