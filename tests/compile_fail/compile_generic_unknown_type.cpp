// expect: This type is none of them
#include <unordered_map>

#include "weft/compile.hpp"

int main() {
  auto f = weft::compile([](const auto& map, const weft::Tensor& x) { return map.empty() ? x : x; });
  f(std::unordered_map<int, int>(), weft::Tensor());
}
