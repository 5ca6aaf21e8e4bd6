// Which temporaries wait in the host's memory. In: a schedule whose order of steps is final, of which buffers are
// marked as recorded inside of offload(). Out: for each of them that is read again much later two more steps that copy
// it to a buffer of the host, and two that copy it back: one begins the copy, which runs beside the steps after it, and
// one waits for it. Between both pairs its memory is free for others. Runs before memory is planned.
#pragma once
#include "schedule/schedule.hpp"

namespace weft {

struct OffloadChoices {
  bool on_host = false;                  // on the CPU too, where it saves nothing: tests
  std::int64_t least_bytes = 256 << 10;  // of a value; a smaller one is copied no faster
};
inline OffloadChoices offload_choices;  // tests change them

// Of what is on its way to the host, and of what is back and has not been read yet, there is never more than an eighth
// of all that is offloaded, or the largest value: where copies are slower than the steps, these wait for them. The
// last eighth that is made stays.
void offload_values(Schedule& schedule, const Graph& graph, Device device);

}  // namespace weft
