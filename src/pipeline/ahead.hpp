// What the libraries of a device take long for, done by threads of their own while others trace, optimize and compile.
// In: graphs and schedules. Out: nothing but libraries that are open and plans that are kept where steps look for them.
// Invariant: what fails here is tried again, and said, by whoever needs it.
#pragma once
#include <thread>
#include <vector>

#include "ir/graph.hpp"
#include "schedule/schedule.hpp"

namespace weft {

// Both end with what they return.
// Opens the device's library of products where a graph multiplies and it is not open, and asks all libraries what
// providers will ask them about the graphs' operations (Providers::add_questions), by several threads.
std::vector<std::jthread> ask_libraries(std::span<const Graph> graphs);
// Payload::make_ahead of all steps, by several threads.
std::vector<std::jthread> make_ahead(const Schedule& schedule);

}  // namespace weft
