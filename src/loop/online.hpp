// Sums of exponentials below the greatest element, as a softmax has them, in the walk that finds that element. Runs on
// a kernel whose axes are final, before its loops are made; serves rows that a device can't hold, and would read once
// more. In: a kernel. Out: one with a phase less, whose sums are scaled as greater elements come; they are rounded
// otherwise. A logsumexp, whose exponentials are relative to 0 where the greatest element is infinite, chooses its sum
// after the walk.
#pragma once
#include "loop/kernel.hpp"

namespace weft::loop {

void sum_online(Kernel& kernel);

}  // namespace weft::loop
