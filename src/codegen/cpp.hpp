// C++ for the CPU. In: kernels of the loop IR. Out: freestanding source text that includes nothing: the prelude (vector
// lanes, the functions that are used) and one extern "C" function a kernel, which runs units [begin, end) of it.
// The text holds nothing of the user's but file names and numbers, and is the same in every process and for every ISA:
// the compiler's own macros choose the machine's vectors.
//
// Numerics: each instruction is rounded once, to its dtype. Reductions add in the order that weft/detail/reduce.inc
// states, a function of the shape alone; the eager kernels share that text.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "loop/kernel.hpp"

namespace weft::codegen {

// The function of one kernel, as a person would read it: comments, then `extern "C" void name(...)`.
std::string generate_cpp(const loop::Kernel& kernel);

// All kernels as at most `count` translation units of about equal length, each with its prelude. `digest`, unless null:
// of the kernels and what of the prelude they use, the same for every count.
std::vector<std::string> cpp_units(std::span<const loop::Kernel> kernels, std::size_t count, Digest* digest = nullptr);

}  // namespace weft::codegen
