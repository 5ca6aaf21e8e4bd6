// Calls of one compiled function whose arguments change by one property, or two, from call to call. In: a seed. Out:
// what differs from a function that is compiled afresh for these arguments and from the function itself run eagerly.
#pragma once
#include <cstdint>

namespace oracle {

// Fails the running test where a specialization is used for arguments that it was not made for.
void check_guards(std::uint64_t first, int count);

}  // namespace oracle
