// The instruction sets that kernels are generated and pre-built for, and which of them this CPU runs.
#pragma once
#include <string_view>

namespace weft {

enum class Isa { baseline, avx2, avx512 };  // x86-64, x86-64-v3, x86-64-v4; each contains the one before it

// The widest that the CPU and the operating system support, capped by WEFT_ISA. Found once.
Isa host_isa();

std::string_view name(Isa isa);

// The compiler's flag: "-march=x86-64-v4". Empty on other architectures, where the compiler's own baseline is used.
std::string_view march_flag(Isa isa);

}  // namespace weft
