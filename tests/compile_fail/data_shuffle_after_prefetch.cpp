// expect: weft: shuffle must come before prefetch and before workers
#include "weft/data.hpp"

int main() { return static_cast<int>((weft::Tensor() | weft::data::prefetch(2) | weft::data::shuffle()).size()); }
