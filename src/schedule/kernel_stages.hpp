// The stages of a kernel: which of its axes lanes run over, and whether its rows or columns are cut into parts that
// units share. In: a kernel whose body is complete, and the group whose domain its axes are. Out: one kernel, or
// several of which each reads what those before it have written, with merged axes and size slots.
#pragma once
#include "loop/stages.hpp"
#include "schedule/group.hpp"

namespace weft {

// `computes`: the kernel computes the group's members; else it copies a part of an assembled value.
loop::Stages kernel_stages(loop::Kernel kernel, const Group& walked, bool computes, Device device);

}  // namespace weft
