// A step that does nothing in some calls: one that copies a value which lies where the copy would.
#pragma once
#include "runtime/step.hpp"

namespace weft::runtime {

class MayBeIdle {
 public:
  // Whether it does nothing where the step's buffers lie so. A recording then leaves it out.
  virtual bool is_idle(const StepCall& call) const = 0;

 protected:
  ~MayBeIdle() = default;
};

}  // namespace weft::runtime
