// What a step that updates rows of a table is told, on each target.
#pragma once
#include "runtime/step.hpp"
#include "weft/dtype.hpp"

namespace weft::runtime {

// Each of `outer` tables has `rows` rows of `inner` elements, of which `count` are updated. Buffers: the table, the
// updates, the index (i64), the result; offsets of the first three, in elements.
struct RowsUpdate {
  DType dtype = DType::f32;
  bool adds = false;  // else updates replace
  Dim outer = 1, rows = 0, inner = 1, count = 0;
  std::vector<Dim> offsets = {};
  static auto fields(auto& self) {
    return std::tie(self.dtype, self.adds, self.outer, self.rows, self.inner, self.count, self.offsets);
  }
  NumberTable::Range numbers(NumberTable& table) const {
    return table.add({outer, rows, inner, count, offsets[0], offsets[1], offsets[2]});
  }
};

}  // namespace weft::runtime
