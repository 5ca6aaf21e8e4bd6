// The set of operations that graphs in files are made of (weft/export.hpp): the table of weft/ops.def and the
// composites. Invariant: what a set holds never changes; who changes the table raises the number, which
// tests/export/operation_set_test.cpp holds against the lists in tests/export/operation_sets/.
#pragma once
#include <string>
#include <vector>

namespace weft {

// Of this build. It reads files of this set and of earlier ones.
inline constexpr int operation_set = 4;

struct OperationRow {
  std::string name;
  bool is_composite;
  std::string operands;                 // "2", "any number"
  std::vector<std::string> attributes;  // "axis: axis", "start: size"
  std::string text() const;             // a line: "slice 1 axis: axis, start: size"
};
// Primitives in the order of the table, then the composites that have attributes of their own.
std::vector<OperationRow> operation_rows();

}  // namespace weft
