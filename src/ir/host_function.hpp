// Functions of the program that a graph calls. In: callables without state and pointers to functions
// (weft/effects.hpp). Out: a number for each, which is an attribute of the node. A number means something in this
// process only.
#pragma once
#include "base/host_value.hpp"
#include "ir/graph.hpp"
#include "weft/effects.hpp"

namespace weft {

struct HostCalls {
  detail::HostCallable call, derivative;
  bool operator==(const HostCalls&) const = default;
};
// The same number for equal ones. There are as many as the program's text has.
std::int64_t host_function_number(const HostCalls& function);
const HostCalls& host_function(std::int64_t number);

// Whether the graph, or a body in it, calls one.
bool calls_host(const Graph& graph);
// Whether no derivative may compute the node again: it is a call that gives values, or has a body that calls one.
bool runs_once(const Node& node);

// Calls it, and writes what it gives to `results`: a token where it gives nothing. The thread's trace and the lock of
// eager evaluation are left meanwhile. Throws what it throws, and Error where it gives other types
// (record/host_call.cpp).
void call_host_function(const HostCalled& called, std::span<const HostValue> operands,
                        std::span<const HostValue> results, Loc loc);

}  // namespace weft
