// A plan as data: buffers, steps, sizes, donations. In: a plan whose steps say what they are written as. Out: bytes,
// and a plan that is to be given its functions and prepared. What it was made for is the entry's business
// (providers/stored_plans.hpp).
#pragma once
#include <functional>

#include "runtime/plan.hpp"

namespace weft::runtime {

// Who makes a step of its name and fields: null where the name is nobody's. It may throw Malformed.
using StepReader = std::function<std::shared_ptr<const Preparable>(const std::string& name, FieldReader& from)>;

// The writer refuses where a step can't be kept.
void write_plan(FieldWriter& to, const Plan& plan);
// Throws Malformed where the bytes are no plan. Every index in what it gives is within its range.
Plan read_plan(FieldReader& from, const StepReader& read_step);

}  // namespace weft::runtime
