// Calls of the program's functions (weft/effects.hpp): what is asked where they are recorded, and while they run.
#pragma once
#include <iosfwd>

#include "weft/effects.hpp"

namespace weft {

// Throws where the callable does not take so many tensors.
void require_host_operands(const char* operation, const detail::HostCallable& callable, std::size_t count, Loc loc);

// Writes the elements of a computed value, without its type.
void write_elements(std::ostream& out, const Tensor& value);

class EvaluationLock;

// Until the end of the block the thread does not hold the lock of eager evaluation, which it may hold: what the program
// does there may evaluate, and wait for threads that do.
class EvaluationPause {
 public:
  EvaluationPause();
  ~EvaluationPause();
  EvaluationPause(const EvaluationPause&) = delete;

 private:
  EvaluationLock* const held_;
};

}  // namespace weft
