// Chooses how a device is used for a kernel: packs, teams and block sizes. Runs before its loops are made. In: a
// kernel. Out: the team, and what it holds of a row.
#pragma once
#include "loop/index_width.hpp"
#include "loop/nest.hpp"

namespace weft::loop {

struct ChosenTeam {
  Analysis analysis;  // keeps a row's values where they are in registers
  Team team = {};
  std::vector<int> fetched = {};                   // loads whose packs are read from shared memory
  std::vector<std::vector<Step>> held_walks = {};  // of the packs that are held
};
ChosenTeam choose_team(const Kernel& kernel);

// Rows that a unit walks in order where it adds up their columns (cut_columns), so that the units fill a device evenly.
std::int64_t rows_of_unit(const Kernel& kernel);

// Fewer rows do not stream: they leave most of a device without work.
inline constexpr std::int64_t least_streamed_rows = 512;
// Whether a row is in registers or in shared memory when it is walked again.
bool holds_row(const Kernel& kernel);
bool has_scans(const Kernel& kernel);
// Whether a predicate is the same for all elements of each pack: it tells positions apart at multiples of the width
// alone.
bool is_same_in_packs(const Kernel& kernel, const Analysis& analysis, int predicate, int width);
// Whether rows of a pointwise kernel are read or written in packs of which most begin between words, whatever the
// buffers begin at: a slice from the second column on, say.
bool begins_at_no_word(const Kernel& kernel, const Analysis& analysis, const Team& team);
// Whether a load or store goes through tiles of the lanes and this axis.
bool turns(const Kernel& kernel, const Analysis& analysis, int instruction, int axis);

}  // namespace weft::loop
