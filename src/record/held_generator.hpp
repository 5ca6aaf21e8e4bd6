// The default generator while a call that draws from it runs the program's code: host_call, disable().
#pragma once
#include "weft/error.hpp"

namespace weft {

// Throws the user's error where this thread holds the default generator: the code that wants to draw is called by a
// function that draws, whose numbers would be drawn twice.
void refuse_held_generator(Loc loc);

}  // namespace weft
