// What the calling thread holds of the process mutexes.
#pragma once
#include "base/fork.hpp"

namespace weft {

bool thread_holds(LockOrder place);

}  // namespace weft
