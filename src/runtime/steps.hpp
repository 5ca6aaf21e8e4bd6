// The steps of plans on disk by name. A program that runs plans of a few kinds of steps names these (reader_of), and
// links no others.
#pragma once
#include <vector>

#include "runtime/stored_step.hpp"

namespace weft::runtime {

struct NamedStep {
  const char* name;
  std::shared_ptr<const StoredStep> (*read)(FieldReader& from, const StepReader& inner);  // inner: of its bodies
};

namespace steps {
#define WEFT_STEP(name) extern const NamedStep name;
#include "runtime/steps.def"
#undef WEFT_STEP
}  // namespace steps

// Of these alone.
StepReader reader_of(std::vector<NamedStep> steps);
// Of all: a StepReader.
std::shared_ptr<const Preparable> read_step(const std::string& name, FieldReader& from);

}  // namespace weft::runtime
