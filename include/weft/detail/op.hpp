// The primitives of weft/ops.def, by name.
#pragma once
#include <cstdint>

namespace weft {

enum class Op : std::uint8_t {
#define WEFT_POINTWISE(name, ...) name,
#define WEFT_STRUCTURAL(name, ...) name,
#include "weft/ops.def"
};

}  // namespace weft
