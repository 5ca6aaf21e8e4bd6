// Drives the host compiler: units of freestanding C++ in, the bytes of one shared object out. What the output is used
// for is decided by what it holds: each unit carries a stamp made from the key of this compilation, and bytes that lack
// a stamp (empty, truncated, old or foreign output) are refused before anything is loaded.
// Units are written into a private folder and named by numbers: no user text reaches a command line.
// How it is driven, and what was measured: docs/decisions/0001-compiler-driving.md.
#pragma once
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "runtime/host/isa.hpp"

namespace weft {

struct HostCompiler {
  std::string path;
  std::string version;   // what it says of itself
  std::string identity;  // path, resolved path, size, times and version: a part of every key
};

// WEFT_CXX, or the first of c++, g++, clang++ in PATH; for another architecture than this machine's g++'s cross
// compiler. Looked for again on each call, asked for its version when its file has changed. Throws NoCompilerError when
// there is none, CompileError when it does not answer.
HostCompiler host_compiler(Architecture architecture = host_architecture);
// The state of its file: while it is the same the compiler is. Empty where there is none.
std::string host_compiler_file(Architecture architecture = host_architecture);

// Arguments of every compilation for this instruction set, and of the step that links; all are part of every key.
std::vector<std::string> compile_flags(InstructionSet isa, int optimization = -1);  // -1: the process's
std::vector<std::string> link_flags();

// `extern "C"` lines that are put at the end of unit `index`: the kernel ABI's version and the unit's stamp (abi.hpp).
std::string unit_stamp(const Digest& key, std::size_t index);

// Compiles the units side by side and links them. Throws CompileError with the compiler's first lines.
std::string compile_units(const HostCompiler& compiler, const std::vector<std::string>& units, InstructionSet isa,
                          const Digest& key, int optimization = -1);

}  // namespace weft
