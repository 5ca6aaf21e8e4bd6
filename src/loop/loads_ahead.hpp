// Loads of a device's kernel whose packs are asked for before they are used, or before the kernel may read anything
// else: which they are, and whether that gains. In: a kernel and its team. Out: numbers of instructions.
#pragma once
#include <vector>

#include "loop/device_team.hpp"

namespace weft::loop {

inline std::int64_t pack_bytes(const Kernel& kernel, const Team& team, int load) {
  return team.width * static_cast<std::int64_t>(storage_bytes(kernel.body[static_cast<std::size_t>(load)].dtype, 1));
}
// Whether the load is of whole packs, which begin at multiples of 16 bytes where its buffer does.
bool loads_words(const Kernel& kernel, const Analysis& analysis, const Team& team, int load);

// The loads whose packs are asked for ahead (Team::ahead): those of the rows, and not what all rows read.
std::vector<int> loads_ahead(const Kernel& kernel, const Analysis& analysis);
// Whether it asks for packs of a row ahead.
bool streams_rows(const Kernel& kernel);
// Of a kernel of one row, which its team has in registers: the loads whose packs only a later walk wants. They are
// asked for before the first walk, since nothing else of the kernel would run while they are on their way.
std::vector<int> loads_of_later_walks(const ChosenTeam& chosen, const Kernel& kernel);
// Of many rows, each of which its team has in registers: the loads of a row that the first walk makes. All their packs
// are asked for before the first one is used. Empty where they need too many registers.
std::vector<int> loads_of_whole_row(const ChosenTeam& chosen, const Kernel& kernel);
// Whether it gains where it may read before the kernel in front of it has ended (Buffer::steady).
bool gains_by_reading_early(const Kernel& kernel);

}  // namespace weft::loop
