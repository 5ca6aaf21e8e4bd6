// The text at the head of every generated CPU kernel file: vector types and the functions over them that its kernels
// use, cut from the embedded include/weft/detail/*.inc. In: names of functions. Out: freestanding C++ source.
// Invariant: the same set gives the same text, byte for byte.
#pragma once
#include <set>
#include <string>

namespace weft::codegen {

// What precedes the first `//@` line of each text, and the sections that `functions` and their needs name, in the
// order of the texts. A name without a section belongs to what is always there.
std::string prelude(const std::set<std::string>& functions);

}  // namespace weft::codegen
