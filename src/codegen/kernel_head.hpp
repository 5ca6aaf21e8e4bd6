// The head of a kernel's function on every target: comments, the addresses of buffers, the size slots.
// In: a kernel and the target's words. Out: lines.
#pragma once
#include "codegen/cpp_expression.hpp"

namespace weft::codegen {

struct HeadWords {
  const char* neighbours;  // where neighbours of the vector axis are: "on the lanes"
  const char* arguments;   // what precedes `buffers` and `sizes`
  const char* index;       // the type of a size
};

// The kernel's own comments, with nothing but plain characters; its axes.
std::vector<std::string> head_comments(const loop::Kernel& kernel, const Expressions& expressions,
                                       const HeadWords& words);
// x<buffer> or y<buffer>, s<size slot>.
std::vector<std::string> head_addresses(const loop::Kernel& kernel, const HeadWords& words);
std::string buffer_name(const loop::Kernel& kernel, int buffer);

}  // namespace weft::codegen
