// Why a trace that can read no value can't.
#pragma once

namespace weft {

// Of the thread's trace, as the end of a sentence: "in the body of a loop, which is recorded once for all rounds".
const char* where_values_are_unknown();

}  // namespace weft
