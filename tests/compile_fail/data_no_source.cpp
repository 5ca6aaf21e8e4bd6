// expect: weft: a pipeline begins with tensors, a struct or tuple of them, or what has size() and operator[]
#include "weft/data.hpp"

struct Stream {
  int* next;
};
int main() { return static_cast<int>((Stream() | weft::data::batch(2)).size()); }
