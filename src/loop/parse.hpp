// Reads a kernel from the text that to_text() writes: to_text(parse_kernel(text)) is `text` again, and what is
// generated from it is the same. In: text. Out: a kernel of the loop IR, not verified. What a kernel's text does not
// hold (where its instructions come from, the plan's buffers) does not come back.
#pragma once
#include <string_view>

#include "loop/kernel.hpp"

namespace weft::loop {

// Throws Error that names the line and the column.
Kernel parse_kernel(std::string_view text);

}  // namespace weft::loop
