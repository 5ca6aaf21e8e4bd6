// What the changed copies of the library's sources ask: which bug is on. seeded_bugs.inc is made of table.txt, a line a
// bug: X(name).
#pragma once
#include <algorithm>

namespace weft {

enum class SeededBug {
#define X(name) name,
#include "seeded_bugs.inc"
#undef X
};

bool seeded(SeededBug bug);

}  // namespace weft
