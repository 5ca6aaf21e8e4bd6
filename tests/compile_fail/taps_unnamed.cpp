// expect: weft: a scope without a name ends at once
#include "weft/taps.hpp"

void run() { weft::TapScope("block"); }
