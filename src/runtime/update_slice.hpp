// What a step that updates a slice in place is told, on each target.
#pragma once
#include "runtime/step.hpp"

namespace weft::runtime {

// What a slice's update is: `outer` runs of `length` * `inner` elements into runs of `size` * `inner`. Buffers: the
// value, the update, the position (i64), the result; offsets of the first three, in elements.
struct SliceUpdate {
  Dim outer = 1, inner = 1, size = 0, length = 0;
  std::int64_t element = 0;  // bytes
  std::vector<Dim> offsets = {};
  static auto fields(auto& self) {
    return std::tie(self.outer, self.inner, self.size, self.length, self.element, self.offsets);
  }
  NumberTable::Range numbers(NumberTable& table) const {
    return table.add({outer, inner, size, length, offsets[0], offsets[1], offsets[2]});
  }
};

}  // namespace weft::runtime
