// expect: plain, or with WEFT_MEMBERS(a, b, ...) inside. This type is none of them
#include <map>

#include "weft/compile.hpp"

int main() {
  auto f = weft::compile([](const auto& map, const weft::Tensor& x) { return map.empty() ? x : x; });
  f(std::map<int, int>(), weft::Tensor());
}
