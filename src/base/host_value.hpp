// A value in the host's memory, row-major.
#pragma once
#include <cstdint>
#include <span>

#include "weft/dtype.hpp"

namespace weft {

struct HostValue {
  DType dtype;
  std::span<const std::int64_t> sizes;
  void* data;
};

}  // namespace weft
