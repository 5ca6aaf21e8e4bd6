#include "autograd/loops.hpp"

#include "base/fail.hpp"

namespace weft {

void differentiate_scan(const Pullback& p) { fail("scan", p.node().loc, "has no derivative yet"); }
void differentiate_cond(const Pullback& p) { fail("cond", p.node().loc, "has no derivative yet"); }

}  // namespace weft
