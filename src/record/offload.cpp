// What is recorded inside of offload() bears a mark: schedule/offload.hpp says what that does.
#include "weft/offload.hpp"

#include "ir/offload_mark.hpp"
#include "record/record.hpp"

namespace weft::detail {

OffloadScope::OffloadScope() : before_(recorder().region & offload_mark) { recorder().region |= offload_mark; }
OffloadScope::~OffloadScope() {
  if (!before_) recorder().region &= ~offload_mark;
}

}  // namespace weft::detail
