// The file of the page of a run. In: what was recorded. Out: <program>-<process>.html in the folder of WEFT_TRACE,
// which is read when the library is loaded; written again as the run goes on, and for the last time when the process
// ends.
#pragma once
#include "observe/run_log.hpp"

namespace weft::detail::observer {

// `complete`: the run has ended. The mutex is held. Throws where the file can't be written.
void write_page(RunLog& log, bool complete);
// A forked child writes none.
bool is_child();

}  // namespace weft::detail::observer
