#include "observe/run_log.hpp"

#include "base/fail.hpp"
#include "base/lazy.hpp"
#include "base/log.hpp"
#include "base/storage.hpp"

namespace weft::detail::observer {

RunLog& run_log() {
  static constinit Lazy<RunLog> instance;
  return instance.get();
}

void give_up(const char* why) noexcept {
  enabled = false;
  tell_of_storage(nullptr);
  try {
    logging::warn_once(concat_text("WEFT_TRACE: the page of this run is given up: ", why));
  } catch (...) {  // there is no memory to say so
  }
}

}  // namespace weft::detail::observer
