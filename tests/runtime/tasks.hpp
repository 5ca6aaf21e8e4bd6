// The other threads of this process, as the system shows them in /proc.
#pragma once
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace weft::test {

class Task {
 public:
  explicit Task(std::string folder) : folder_(std::move(folder)) {}

  std::string name() const {
    std::string text;
    std::getline(std::ifstream(folder_ + "/comm"), text);
    return text;
  }
  // 'R' where it runs or waits for a processor, 'S' where it sleeps; 0 where it has ended.
  char state() const { return static_cast<char>(value("State:")[0]); }
  bool sleeps() const { return state() == 'S'; }
  // Whether the thread takes no such signal.
  bool blocks(int signal) const {
    const std::string mask = value("SigBlk:");
    return !mask.empty() && (std::stoull(mask, nullptr, 16) >> (signal - 1) & 1) != 0;
  }
  // Nanoseconds on a processor; -1 where the system does not count them.
  std::int64_t ran() const {
    std::int64_t time = -1;
    std::ifstream(folder_ + "/schedstat") >> time;
    return time;
  }

 private:
  std::string value(const std::string& key) const {
    std::ifstream file(folder_ + "/status");
    for (std::string line; std::getline(file, line);)
      if (line.starts_with(key)) return line.substr(line.find_first_not_of(" \t", key.size()));
    return std::string(1, '\0');
  }

  std::string folder_;
};

inline std::vector<Task> other_tasks() {
  std::vector<Task> tasks;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    if (entry.path().filename() != std::to_string(gettid())) tasks.emplace_back(entry.path());
  return tasks;
}
inline std::vector<Task> worker_tasks() {
  std::vector<Task> tasks = other_tasks();
  std::erase_if(tasks, [](const Task& task) { return task.name() != "weft-worker"; });
  return tasks;
}

}  // namespace weft::test
