// Random programs over the public surface. In: a seed. Out: a list of instructions that can be replayed on any tensors
// of the inputs' types (traced, symbolic, eager), and shortened while it still fails. Invariant: the same seed gives
// the same program; an instruction that does not fit its operands' types is left out when the program is made, so a
// program that lost instructions in shrinking still replays.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ir/graph.hpp"
#include "weft/ops.hpp"

namespace weft::testing {

// A step: primitive or composite `what`, operands by position in the list of values so far, and small numbers.
struct Instruction {
  Op op;
  std::vector<int> operands;  // negative: the literal -1 - i of the program
  std::vector<std::int64_t> numbers;
  DType dtype = DType::f32;
};

struct ProgramInput {
  DType dtype;
  std::vector<std::int64_t> sizes;
};

struct Program {
  std::uint64_t seed = 0;
  std::int64_t most_elements = 400;  // of a value
  std::vector<ProgramInput> inputs;
  std::vector<double> literals;
  std::vector<Instruction> instructions;
  std::vector<int> returned;  // results besides those that nobody reads: positions in the list of values, ascending
  bool gradient = false;      // also the gradients of the mean of all floating results
  bool state = false;         // the first input is state: its new value is an output of its type
};

Program make_program(std::uint64_t seed, int instructions);
// The same of sizes at which reductions are cut, and rows and columns reduced in one kernel. For its schedule: to run
// it takes long.
Program make_large_program(std::uint64_t seed, int instructions);

// Replays on tensors: all results that nobody reads, those returned besides, gradients and the state's new value. Works
// traced and eagerly.
std::vector<Tensor> replay(const Program& program, const std::vector<Tensor>& inputs);

// Without the instruction at `position`: later operands that read it read its first operand, or another input.
Program without(const Program& program, std::size_t position);
// A short program that still fails, found by leaving out instructions one at a time, from the last.
Program shrink(Program program, const std::function<bool(const Program&)>& fails);

std::string to_text(const Program& program);

// Whether an instruction of a program may be this primitive; others are in the programs' gradients, or have tests of
// their own.
bool is_drawn(Op op);

}  // namespace weft::testing
