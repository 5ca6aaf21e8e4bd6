// Memory over time, for the page of a run. In: each block of storage that is given or comes back. Out: moments in
// RunLog::memory, at most some thousands, of which the largest values stay.
#pragma once
#include "observe/run_log.hpp"

namespace weft::detail::observer {

// From here on, with what is in use already. The mutex is held.
void begin_memory(RunLog& log);

}  // namespace weft::detail::observer
