// A collective as plain data: what the graph's primitives and those who carry them out share.
#pragma once
#include <cstdint>

#include "weft/dtype.hpp"

namespace weft {

// What every process of a group does with `count` elements of its own.
struct CollectiveOperation {
  enum class Kind : std::uint8_t { all_reduce, broadcast, reduce_to_root, all_gather, reduce_scatter };
  Kind kind = Kind::all_reduce;
  DType dtype = DType::f32;
  int processes = 1;
  int root = 0;  // broadcast, reduce_to_root

  // Elements of the result, of so many of the operand.
  std::int64_t result_count(std::int64_t count) const {
    return kind == Kind::all_gather ? count * processes : kind == Kind::reduce_scatter ? count / processes : count;
  }
};

}  // namespace weft
