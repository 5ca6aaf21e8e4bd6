// expect: weft: a Shape is compared with a Shape, as in x.shape() == Shape::of(3, 4)
#include <vector>

#include "weft/ops.hpp"

int main() { return weft::ones({3, 4}).shape() == std::vector<int>{3, 4}; }
