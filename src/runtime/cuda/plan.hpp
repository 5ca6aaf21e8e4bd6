// Launch plans on a CUDA device. In: a plan whose device_code holds its kernels. Out: the plan made ready: its launches
// are queued on the device's stream in order. What lies on the host (Scalars, a generator's state) is copied to the
// device before the first launch and results back after the last; checks are waited for where they stand.
#pragma once
#include "runtime/plan.hpp"

namespace weft::runtime::cuda {

std::shared_ptr<PreparedPlan> prepare(const Plan& plan);

}  // namespace weft::runtime::cuda
