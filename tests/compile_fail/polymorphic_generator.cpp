// expect: weft: a class that derives from weft::Polymorphic must be copyable, but for what unique_ptr hold
#include <memory>

#include "weft/polymorphic.hpp"
#include "weft/random.hpp"

struct Noise : weft::Polymorphic {
  weft::Generator generator = weft::Generator(1);
  WEFT_MEMBERS(generator)
};
int main() { std::unique_ptr<weft::Polymorphic> layer = std::make_unique<Noise>(); }
