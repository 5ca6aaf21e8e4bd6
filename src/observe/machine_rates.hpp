// What the machine can do, as measured in this process: what profile() holds the steps against. In: a device and a
// dtype. Out: the most that it moves, or computes, in a second. Known rates are kept, under a lock of their own.
#pragma once
#include <optional>

#include "weft/dtype.hpp"

namespace weft::detail {

// Bytes a second; with a dtype, operations a second in large products. Measured at the first question, under no lock:
// threads that ask at once may both measure. 0: there was no memory to measure.
double machine_rate(Device device, std::optional<DType> dtype);

}  // namespace weft::detail
