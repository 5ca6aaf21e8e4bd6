// Whether what this thread decides about symbolic sizes becomes a guard. It does in a trace; in a pass and in a kernel
// all decisions have been taken.
#pragma once

namespace weft::dims {

bool& are_guarded();  // of this thread

}  // namespace weft::dims
