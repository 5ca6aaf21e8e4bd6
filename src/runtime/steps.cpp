#include "runtime/steps.hpp"

#include <string_view>

namespace weft::runtime {

std::shared_ptr<const Preparable> read_step(const std::string& name, FieldReader& from) {
#define WEFT_STEP(row) \
  if (name == std::string_view(#row)) return steps::row.read(from, read_step);
#include "runtime/steps.def"
#undef WEFT_STEP
  return nullptr;
}

}  // namespace weft::runtime
