// A profile in the format of Chrome's tracing.
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/fail.hpp"
#include "weft/profile.hpp"

namespace weft {

void Profile::chrome_trace(const std::string& path) const {
  nlohmann::json all = nlohmann::json::array();
  for (const Event& event : events) {
    const Step& step = steps.at(event.step);
    all.push_back({{"name", step.name},
                   {"cat", step.generated ? "kernel" : "library"},
                   {"ph", "X"},
                   {"ts", event.begin * 1e6},
                   {"dur", event.seconds * 1e6},
                   {"pid", 0},
                   {"tid", step.loop.empty() ? 0 : 1},
                   {"args", {{"computes", step.computes}, {"by", step.by}, {"function", step.function}}}});
  }
  std::ofstream out(path);
  out << nlohmann::json{{"traceEvents", all}, {"displayTimeUnit", "ns"}}.dump(-1, ' ', false,
                                                                              nlohmann::json::error_handler_t::replace);
  out.close();
  if (!out) fail("profile", {}, "the trace can't be written to ", path);
}

}  // namespace weft
