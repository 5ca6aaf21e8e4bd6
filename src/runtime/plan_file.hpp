// A plan as data: buffers, steps, sizes, donations. In: a plan whose steps say what they are written as. Out: bytes,
// and a plan that is to be given its functions and prepared. What it was made for is the entry's business
// (providers/stored_plans.hpp); which steps there are, runtime/steps.hpp's.
#pragma once
#include <string_view>

#include "runtime/plan.hpp"
#include "runtime/stored_step.hpp"

namespace weft::runtime {

// Before the name of a step of a device's plan, as its reader is asked for it. Its fields are all that there is to
// read.
inline constexpr std::string_view device_step_prefix = "cuda/";

// The writer refuses where a step can't be kept.
void write_plan(FieldWriter& to, const Plan& plan);
// Throws Malformed where the bytes are no plan. Every index in what it gives is within its range.
Plan read_plan(FieldReader& from, const StepReader& read_step);
// What kernels were compiled for: the launches that a writer or a reader has noted, in an order that both have.
void write_launches(FieldWriter& to, std::vector<Digest> launches);

}  // namespace weft::runtime
