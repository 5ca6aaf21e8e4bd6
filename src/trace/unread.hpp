// Inputs that nothing in the graph reads: their sizes guard nothing. In: a call, its trace and the trace's symbols.
// Out: the same with a symbol of its own for each of these sizes, where the function takes no notice of them.
#pragma once
#include <functional>

#include "trace/call_context.hpp"

namespace weft::detail {

// A trace tells a size that nobody asked for from one that became a number only where the size is a symbol. So it calls
// `trace` again, once or a few times, where there are such inputs.
void free_unread_sizes(const CallContext& call, std::vector<Guards::Symbol>& symbols, TraceResult& traced,
                       const std::function<TraceResult(const std::vector<Guards::Symbol>&)>& trace);

}  // namespace weft::detail
