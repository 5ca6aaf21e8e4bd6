// The steps that packages may have where a program has no list of its own: all. Nothing else may be in this file: the
// linker leaves it out where there is another list.
#include "weft_run.h"

const weft_step* const weft_linked_steps[] = {
#define WEFT_STEP(name) &weft_step_##name,
#include "runtime/steps.def"
#undef WEFT_STEP
    nullptr};
