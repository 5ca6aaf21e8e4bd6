// What is repeated in a schedule. In: its steps. Out: the uses of the regions that the program marked, and the runs of
// steps that come again with other memory, which are found: near-linear in the number of steps.
#pragma once
#include "schedule/schedule.hpp"

namespace weft {

// Whether a region has two uses whose kernels differ.
bool uses_differ(const Schedule& schedule);
// What is compiled for the steps. A function takes as long as so many instructions before its first.
struct Code {
  std::size_t functions = 0, instructions = 0;
  static constexpr std::size_t of_a_function = 20;
  std::size_t work() const { return functions * of_a_function + instructions; }
};
Code code_of(const Schedule& schedule);

// Steps first, first + 1, ..., first + steps - 1, and so `uses` times, one after the other: the same functions and the
// same library calls.
struct Repeat {
  std::size_t first, steps, uses;
};
// The longest first. No step is in two of them.
std::vector<Repeat> find_repeats(const Schedule& schedule);

// For people: a line for each region that was marked, then for the borders, then for each repeat.
std::vector<std::string> repeat_texts(const Schedule& schedule);

}  // namespace weft
