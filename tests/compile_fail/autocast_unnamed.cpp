// expect: weft: a scope without a name ends at once
#include "weft/autocast.hpp"

void run() { weft::Autocast(weft::DType::bf16); }
