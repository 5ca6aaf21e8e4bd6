// Where a factory puts a tensor whose device the program does not name: on the host. The suites of the host set another
// device, and run on it as they are (tests/main.cpp). What draws, counts or copies for the host itself goes around it.
#pragma once
#include "weft/dtype.hpp"

namespace weft {

extern constinit Device default_device;  // set before the first tensor is made

// A device of options: the host is what nobody named.
inline Device placed(Device device) { return device == Device::cpu() ? default_device : device; }

}  // namespace weft
