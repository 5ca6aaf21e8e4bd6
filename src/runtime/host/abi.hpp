// What generated kernels and the runtime agree on. A shared object says which version it was made for.
#pragma once

namespace weft {

inline constexpr int kernel_abi = 1;
inline constexpr char abi_symbol[] = "weft_kernel_abi";  // extern "C" const int

}  // namespace weft
