// Holds a compiled function against the host's eager execution in its own dtype and in f64. In: functions. Out: for
// each, what differs, or nothing. The device is the one of WEFT_TEST_DEVICE.
#pragma once
#include "fuzz/function.hpp"

namespace fuzz {

// Empty where the first call, two more that replay it, and a call on other values are right. Results of the same
// inputs must have the same bits. `close` results may be 4 times as far from f64 as eager execution is, 8 times as far
// as inputs that are moved by a unit of the dtype move them, 32 units of its precision at the largest element, and what
// roundings of a sum of as many terms as an input has come to.
std::string check(const Function& function);

// Checks the functions of these seeds; fails the running test with the seed and the function where one differs.
void check_functions(std::uint64_t first, std::uint64_t count);

}  // namespace fuzz
