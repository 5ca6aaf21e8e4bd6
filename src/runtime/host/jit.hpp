// From source to code that can be called: the one entry point for generated kernels. What was asked for before comes
// from memory while somebody holds it, then from the disk cache, and is compiled otherwise. The same source under the
// same compiler, flags and ISA is the same library; two threads that ask at once compile once. Where
// there is no compiler, what any compiler made of the same source with the same flags for the same ISA is taken from
// the disk cache.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.hpp"
#include "runtime/host/isa.hpp"
#include "runtime/host/library.hpp"

namespace weft {

struct KernelSource {
  std::vector<std::string> units = {};  // freestanding C++; compiled side by side. A unit that comes twice counts once
  InstructionSet isa = host_isa();
  std::string extra_key = {};  // whatever else the code depends on and its text does not show
  // The same for the same code, however it is divided into units, which depends on the number of cores. Empty: of the
  // units as they are.
  Digest code = {};
  int optimization = -1;  // the compiler's -O; -1: the process's
};

// Into how many units so many kernels are best divided for the soonest result: as many as cores, but not for a handful.
std::size_t unit_count(std::size_t kernels);

// Throws CompileError with the compiler's words, and says where the source was kept; NoCompilerError where there is
// none and the disk cache has no such library.
std::shared_ptr<Library> jit(const KernelSource& source);

// One that this process holds, or that a loaded file or the disk cache has under this key; null where none has.
std::shared_ptr<Library> find_library(const Digest& key, std::size_t units, InstructionSet isa = host_isa());

// All units in one text, as it is kept for people to read (Library::source_path() is the file).
std::string source_text(const KernelSource& source);

// Counts of libraries reused, loaded from disk, and compiled in this process.
struct JitCounts {
  std::uint64_t from_memory = 0;
  std::uint64_t from_disk = 0;
  std::uint64_t compiled = 0;
  double compile_seconds = 0;
};
JitCounts jit_counts();

}  // namespace weft
