// A profile as a table for people.
#include <algorithm>
#include <array>
#include <ostream>
#include <set>

#include "base/fail.hpp"
#include "weft/profile.hpp"

namespace weft {
namespace {

std::string format(const char* pattern, double value) {
  char text[40];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}
std::string time_text(double seconds) {
  return seconds >= 1      ? format("%.3g s", seconds)
         : seconds >= 1e-3 ? format("%.3g ms", seconds * 1e3)
                           : format("%.3g us", seconds * 1e6);
}
std::string percent(double share) { return share > 0 ? format("%.0f %%", share * 100) : ""; }
std::string billions(double rate) { return rate > 0 ? format("%.3g", rate / 1e9) : ""; }

// "matmul by oneDNN: matmul f32[64,256], model.cpp:12 and 2 more".
std::string description(const Profile::Step& step) {
  constexpr std::size_t shown = 2;
  std::string text = step.name + (step.by.empty() ? "" : " by " + step.by);
  if (!step.loop.empty()) text += " in " + step.loop;
  for (std::size_t i = 0; i < std::min(shown, step.computes.size()); ++i)
    text += (i == 0 ? ": " : "; ") + step.computes[i];
  if (step.computes.size() > shown) text += " and " + std::to_string(step.computes.size() - shown) + " more";
  return text;
}

using Row = std::array<std::string, 8>;

std::string table(const std::vector<Row>& rows) {
  std::array<std::size_t, std::tuple_size_v<Row>> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i + 1 < row.size(); ++i)
      text += std::string(widths[i] - row[i].size(), ' ') + row[i] + "  ";
    text += row.back() + "\n";
  }
  return text;
}

}  // namespace

std::string to_string(const Profile& profile) {
  std::string text = concat_text("a call takes ", time_text(profile.seconds), "; its steps, one by one, ",
                                 time_text(profile.seconds_in_steps), " (medians, ", profile.calls, " calls)\n");
  if (profile.compilations > 0)
    text += concat_text("the calls compiled ", profile.compilations,
                        " times while they were measured: docs/troubleshooting.md says what to do\n");
  if (profile.steps.empty()) return text + "no compiled function ran: operations outside of compile() are not seen\n";
  text += concat_text("this machine moves ", format("%.3g", profile.machine_bandwidth / 1e9),
                      " GB/s; its peak is that of large products in the step's dtype\n");
  std::vector<Row> rows{{"time", "share", "runs", "GB/s", "of bandwidth", "GFLOP/s", "of peak", "step"}};
  for (const Profile::Step& step : profile.steps)
    rows.push_back({time_text(step.seconds), percent(step.seconds / profile.seconds_in_steps),
                    format("%.3g", step.runs), billions(step.bandwidth), percent(step.of_bandwidth),
                    billions(step.rate), percent(step.of_peak), description(step)});
  text += table(rows);
  std::set<std::string> functions;
  for (const Profile::Step& step : profile.steps) functions.insert(step.function);
  text += "compiled functions:";
  for (const std::string& function : functions) text += (function == *functions.begin() ? " " : "; ") + function;
  return text + "\n";
}
std::ostream& operator<<(std::ostream& out, const Profile& profile) { return out << to_string(profile); }

}  // namespace weft
