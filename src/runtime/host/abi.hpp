// What generated kernels and the runtime agree on. A shared object says which version it was made for, and from which
// source.
#pragma once
#include <elf.h>

#include <string>

#include "base/hash.hpp"
#include "runtime/host/isa.hpp"

namespace weft {

inline constexpr int kernel_abi = 1;
// What a shared object says that it is for.
constexpr int elf_machine(Architecture architecture) {
  return architecture == Architecture::x86_64 ? EM_X86_64 : architecture == Architecture::arm64 ? EM_AARCH64 : EM_NONE;
}
inline constexpr char abi_symbol[] = "weft_kernel_abi";  // extern "C" const int
// What the end of unit `index` defines: a symbol, and the 16 bytes that lie there.
std::string stamp_symbol(std::size_t index);
std::string stamp_bytes(const Digest& key, std::size_t index);

}  // namespace weft
