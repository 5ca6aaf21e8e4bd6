#include "observe/page_file.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/fail.hpp"
#include "base/file.hpp"
#include "observe/median.hpp"
#include "observe/run_memory.hpp"
#include "weft/version.hpp"

namespace weft::codegen {
extern const char embedded_run_page[];
}

namespace weft::detail::observer {
namespace {

using Json = nlohmann::json;

std::string machine() {
  std::ifstream in("/proc/cpuinfo");
  std::string model = "a CPU";
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("model name")) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  return concat_text(model, " with ", std::thread::hardware_concurrency(), " threads");
}

Json json_of(const Made& made) {
  Json all = made.shown;
  all["trace_count"] = made.trace_count;
  all["seconds"] = made.trace_seconds;
  all["traces"] = made.traces;
  all["call_count"] = made.call_count;
  all["call_seconds"] = made.call_seconds;
  all["calls"] = made.calls;
  all["watched"] = made.watched.size();
  for (std::size_t step = 0; step < all["steps"].size(); ++step) {
    std::vector<double> seconds;
    for (const std::vector<double>& call : made.watched)
      if (step < call.size()) seconds.push_back(call[step]);
    if (!seconds.empty()) all["steps"][step]["seconds"] = median(std::move(seconds));
  }
  return all;
}

}  // namespace

void write_page(RunLog& s, bool complete) {
  char started[32] = {};
  std::tm parts{};
  std::strftime(started, sizeof started, "%Y-%m-%d %H:%M:%S", localtime_r(&s.started, &parts));
  Json all{{"program", program_invocation_short_name},
           {"process", getpid()},
           {"started", started},
           {"machine", machine()},
           {"version", version()},
           {"complete", complete},
           {"seconds", seconds_between(s.begin, Clock::now())},
           {"left_out", s.left_out},
           {"memory", s.memory},
           {"compilations", Json::array()}};
  for (const Made& made : s.made) all["compilations"].push_back(json_of(made));
  std::string data;
  for (const char c : all.dump(-1, ' ', false, Json::error_handler_t::replace))
    c == '<' ? data += "\\u003c" : data += c;  // nothing in it ends the script
  std::string page = codegen::embedded_run_page;
  const std::string mark = "@DATA@";
  page.replace(page.find(mark), mark.size(), data);

  const std::filesystem::path path =
      std::filesystem::path(s.folder) / concat_text(program_invocation_short_name, "-", getpid(), ".html");
  std::error_code error;
  std::filesystem::create_directories(s.folder, error);
  NewFile file("", path.c_str(), {});
  file.write(page);
  file.finish(false);  // it is written each second: nobody waits for the disk
  s.written = Clock::now();
}

bool is_child() { return process_generation() != 0; }

namespace {

void write_last() noexcept {
  guarded([] {
    if (is_child()) return;
    RunLog& s = run_log();
    const std::lock_guard lock(s.mutex);
    write_page(s, true);
  });
}

// The variable is read when the library is loaded. The folder is the one that its name means then.
const bool read = [] {
  const char* const folder = std::getenv("WEFT_TRACE");
  if (!folder || !*folder) return false;
  enabled = true;
  guarded([&] {
    RunLog& s = run_log();
    s.folder = std::filesystem::absolute(folder);
    const std::lock_guard lock(s.mutex);
    begin_memory(s);
    std::atexit(write_last);
  });
  return true;
}();

}  // namespace
}  // namespace weft::detail::observer
