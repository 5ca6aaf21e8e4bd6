// The default generator as compile() sees it. A trace that draws from it gets a hidden input, Trace::generator_input
// (i64[2]: seed, offset), whose value at the end is Trace::generator_value: each call takes the state, runs, and puts
// the new one back.
#pragma once
#include <mutex>

#include "base/fork.hpp"
#include "weft/random.hpp"

namespace weft {

// The default generator for the length of a call that draws from it: others who draw wait, so that no number is drawn
// twice.
struct HeldGenerator {
  std::unique_lock<ProcessMutex> lock;
  Tensor* state = nullptr;
};
HeldGenerator hold_default_generator();
// Its state in the trace that is recorded.
Tensor& traced_generator_state(Loc loc);
// A draw of `generator`, which goes on: seed and offset, i64[] each, as Op::random_bits takes them.
struct Draw {
  Tensor seed, offset;
};
Draw next_draw(Generator& generator, Loc loc);
// What dropout() of weft/random.hpp gives by that draw; 0 < probability <= 1, of a floating tensor.
Tensor dropped(const Tensor& value, double probability, const Draw& draw, Loc loc);
// Where its state is kept: compile() refuses that as an argument, since all threads share it.
const Tensor* default_generator_state();

}  // namespace weft
