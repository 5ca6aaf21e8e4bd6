// Uses of regions: what is recorded in one bears its mark, and what is derived from that does too.
#include "weft/region.hpp"

#include "base/fail.hpp"
#include "ir/offload_mark.hpp"
#include "record/record.hpp"

namespace weft::detail {

RegionUse::RegionUse(const std::string& name) : before_(recorder().region) {
  Trace* const trace = recorder().trace();
  if (!trace) return;
  const std::uint32_t use = ++trace->region_uses[intern_text(name)];
  recorder().region = intern_text(name + "#" + std::to_string(use)) | (before_ & offload_mark);
}
RegionUse::~RegionUse() { recorder().region = before_; }

std::string region_name(const char* name, Loc loc) {
  if (!name) return to_string(loc);
  if (!*name) fail("region", loc, "the name is empty");
  return name;
}

}  // namespace weft::detail
