// Runs programs without a shell. A program gets its arguments as they are, /dev/null as standard input, its own process
// group, default signal handlers and no descriptor of ours but standard output and error, which are captured together.
// When it ends, or at its deadline, whatever is left of its group is killed. Nothing is left behind: no zombie, no
// descriptor, no thread.
#pragma once
#include <atomic>
#include <string>
#include <vector>

namespace weft {

struct Command {
  std::vector<std::string> arguments = {};    // the program's path, then its arguments
  std::vector<std::string> environment = {};  // "NAME=value", all that the program sees
  int directory = -1;                         // descriptor of its working directory; -1: ours
  double deadline = 60;                       // seconds
  std::size_t output_limit = 256 << 10;       // bytes of output that are kept; the rest is read and dropped
};

struct ProcessResult {
  enum class End {
    exited,       // `code` is the exit status
    signalled,    // `code` is the signal
    timed_out,    // killed at its deadline
    stopped,      // killed, or not started, since its thread's programs are stopped
    not_started,  // `code` is errno
    lost,         // it ended, but the host program reaps children itself (SIGCHLD ignored): its status is unknown
  };
  End end = End::not_started;
  int code = 0;
  std::string output;
  double seconds = 0;

  bool succeeded() const { return end == End::lost || (end == End::exited && code == 0); }
};

// "exited with status 1", "was killed by signal 11 (Segmentation fault)", "did not end within 60 s", ...
std::string describe(const ProcessResult& result, const Command& command);

// Programs that the calling thread runs are stopped from when the flag is true on; null: no more.
void stop_programs_when(const std::atomic<bool>* flag);
bool programs_are_stopped();

// Runs all commands, at most `at_most` of them at once; results in the order of commands.
std::vector<ProcessResult> run_all(const std::vector<Command>& commands, int at_most);
ProcessResult run(const Command& command);

}  // namespace weft
