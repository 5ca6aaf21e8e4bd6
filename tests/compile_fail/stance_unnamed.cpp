// expect: weft: a scope without a name ends at once
#include "weft/stance.hpp"

void run() { weft::StanceScope(weft::Stance::force_eager); }
