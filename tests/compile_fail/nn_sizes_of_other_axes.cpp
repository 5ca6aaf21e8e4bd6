// expect: weft: a layer has one size for all axes, or one for each
#include "weft/weft.hpp"

using namespace weft;

int main() { nn::AdaptiveAvgPool2d({2})(ones({1, 4, 4})); }
