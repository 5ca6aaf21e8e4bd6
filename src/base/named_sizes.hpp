// The sizes of a call, for messages that name their symbols.
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "weft/error.hpp"

namespace weft {

// ", where s0 = 9": of the symbols that a message names, the sizes. Symbol i has sizes[i]. Empty where it names none,
// or says already what they are.
std::string sizes_named(const std::string& message, std::span<const std::int64_t> sizes);
// In the handler of an Error, as of a check whose text was made when the function was traced: throws it with these
// sizes before its line, or as it is.
[[noreturn]] void rethrow_with_sizes(const Error& error, std::span<const std::int64_t> sizes);

}  // namespace weft
