#include "runtime/host/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/fail.hpp"
#include "runtime/directory.hpp"

namespace weft {

namespace {

using Clock = std::chrono::steady_clock;
using End = ProcessResult::End;

thread_local constinit const std::atomic<bool>* stop_flag = nullptr;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// posix_spawn's two attribute objects, filled in and released together.
class SpawnSetup {
 public:
  SpawnSetup(const Command& command, int output) {
    posix_spawn_file_actions_init(&actions_);
    posix_spawnattr_init(&attributes_);
    // The order matters: both descriptors may be 0, 1 or 2 in a program that closed its standard streams.
    if (command.directory >= 0) posix_spawn_file_actions_addfchdir_np(&actions_, command.directory);
    posix_spawn_file_actions_adddup2(&actions_, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions_, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_addopen(&actions_, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 34)
    posix_spawn_file_actions_addclosefrom_np(&actions_, 3);  // descriptors that the host opened without O_CLOEXEC
#endif
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes_, 0);
    posix_spawnattr_setsigmask(&attributes_, &none);
    posix_spawnattr_setsigdefault(&attributes_, &all);
  }
  SpawnSetup(const SpawnSetup&) = delete;
  ~SpawnSetup() {
    posix_spawn_file_actions_destroy(&actions_);
    posix_spawnattr_destroy(&attributes_);
  }
  int spawn(const Command& command, pid_t& pid) {
    return posix_spawn(&pid, command.arguments.at(0).c_str(), &actions_, &attributes_,
                       pointers(command.arguments).data(), pointers(command.environment).data());
  }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

// One program from start to end.
class Job {
 public:
  Job(const Command& command, ProcessResult& result) : command_(&command), result_(&result), start_(Clock::now()) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) {
      result_->code = errno;
      return;
    }
    output_ = Descriptor(ends[0]);
    const Descriptor write_end(ends[1]);
    fcntl(output_.get(), F_SETFL, O_NONBLOCK);
    result_->code = SpawnSetup(command, write_end.get()).spawn(command, pid_);
    if (result_->code != 0) return;
    running_ = true;
  }

  bool running() const { return running_; }
  int output() const { return output_.get(); }
  bool output_ended() const { return !output_; }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  double seconds_left() const { return command_->deadline - seconds(); }

  // Takes what is there; ends the job when the program has ended or its time is over.
  void advance() {
    read_output();
    siginfo_t info{};
    // WNOWAIT keeps the pid ours until the group is killed, so that the number can't be somebody else's by then.
    const int waited = waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT);
    if (waited != 0 && errno == ECHILD) return end(End::lost, 0);
    if (waited == 0 && info.si_pid == pid_) {
      stop_group();
      return end(info.si_code == CLD_EXITED ? End::exited : End::signalled, info.si_status);
    }
    if (seconds_left() > 0 && !programs_are_stopped()) return;
    stop_group();
    end(programs_are_stopped() ? End::stopped : End::timed_out, 0);
  }

 private:
  void read_output() {
    char buffer[16384];
    while (output_) {
      const ssize_t count = read(output_.get(), buffer, sizeof buffer);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count <= 0) {
        output_ = Descriptor();
        return;
      }
      const std::size_t room = command_->output_limit - std::min(command_->output_limit, result_->output.size());
      result_->output.append(buffer, std::min(room, static_cast<std::size_t>(count)));
    }
  }

  void stop_group() {
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }

  void end(End how, int code) {
    read_output();
    result_->end = how;
    result_->code = code;
    result_->seconds = seconds();
    output_ = Descriptor();
    running_ = false;
  }

  const Command* command_;
  ProcessResult* result_;
  Clock::time_point start_;
  Descriptor output_;
  pid_t pid_ = -1;
  bool running_ = false;
};

// Sleeps until a job says something, a deadline passes, or it is time to ask whether one has ended. A program's output
// ends with the program, in all but odd cases; then its status is there within microseconds.
void wait_for_any(const std::vector<Job>& jobs) {
  std::vector<pollfd> polled;
  double seconds = 0.02;
  for (const Job& job : jobs) {
    if (job.output_ended())
      seconds = std::min(seconds, 0.0005);
    else
      polled.push_back({job.output(), POLLIN, 0});
    seconds = std::min(seconds, std::max(job.seconds_left(), 0.0));
  }
  const timespec timeout{0, static_cast<long>(seconds * 1e9)};
  ppoll(polled.data(), polled.size(), &timeout, nullptr);
}

}  // namespace

void stop_programs_when(const std::atomic<bool>* flag) { stop_flag = flag; }
bool programs_are_stopped() { return stop_flag && stop_flag->load(std::memory_order_relaxed); }

std::vector<ProcessResult> run_all(const std::vector<Command>& commands, int at_most) {
  std::vector<ProcessResult> results(commands.size());
  std::vector<Job> jobs;
  for (std::size_t next = 0; next < commands.size() || !jobs.empty();) {
    if (programs_are_stopped())
      for (; next < commands.size(); ++next) results[next].end = End::stopped;
    while (next < commands.size() && jobs.size() < static_cast<std::size_t>(std::max(at_most, 1))) {
      Job job(commands[next], results[next]);
      ++next;
      if (job.running()) jobs.push_back(std::move(job));
    }
    if (jobs.empty()) continue;
    wait_for_any(jobs);
    for (Job& job : jobs) job.advance();
    std::erase_if(jobs, [](const Job& job) { return !job.running(); });
  }
  return results;
}

ProcessResult run(const Command& command) { return run_all({command}, 1)[0]; }

std::string describe(const ProcessResult& result, const Command& command) {
  switch (result.end) {
    case End::exited: return concat_text("exited with status ", result.code);
    case End::signalled: return concat_text("was killed by signal ", result.code, " (", strsignal(result.code), ")");
    case End::timed_out: return concat_text("did not end within ", command.deadline, " s and was killed");
    case End::stopped: return "was stopped";
    case End::not_started: return concat_text("could not be started: ", strerror(result.code));
    case End::lost: return "ended with an unknown status";
  }
  return {};
}

}  // namespace weft
