// expect: weft: WEFT_MEMBERS must list every data member, in the order of declaration
#include <memory>

#include "weft/polymorphic.hpp"

struct Scale : weft::Polymorphic {
  weft::Param by;
  WEFT_MEMBERS(by)
};
struct Shifted : Scale {
  weft::Param shift;
  WEFT_MEMBERS(shift)
};
int main() { std::unique_ptr<Scale> layer = std::make_unique<Shifted>(); }
