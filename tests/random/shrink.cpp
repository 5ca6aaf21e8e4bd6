#include "random/program.hpp"

namespace weft::testing {

Program shrink(Program program, const std::function<bool(const Program&)>& fails) {
  int budget = 80;
  for (std::size_t position = program.instructions.size(); position-- > 0 && budget > 0;) {
    Program shorter = without(program, position);
    --budget;
    if (fails(shorter)) program = std::move(shorter);
  }
  for (bool Program::*flag : {&Program::gradient, &Program::state}) {
    if (!(program.*flag)) continue;
    Program simpler = program;
    simpler.*flag = false;
    if (fails(simpler)) program = std::move(simpler);
  }
  return program;
}

}  // namespace weft::testing
