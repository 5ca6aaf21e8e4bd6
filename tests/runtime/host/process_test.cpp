#include "runtime/host/process.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/support.hpp"

using weft::Command;
using weft::ProcessResult;
using weft::test::Folder;
using End = ProcessResult::End;

namespace {

Command shell(const std::string& script, double deadline = 20) {
  return {
      .arguments = {"/bin/sh", "-c", script}, .environment = {"PATH=/usr/bin:/bin", "ONLY=this"}, .deadline = deadline};
}

bool is_alive(const std::string& pid) {
  // A killed orphan may be a zombie until init collects it; that is not alive.
  const std::string status = weft::test::read_file("/proc/" + pid + "/stat");
  return !status.empty() && status.find(") Z") == status.npos && status.find(") X") == status.npos;
}

}  // namespace

TEST_CASE("status, output, environment and standard input are what they should be") {
  const ProcessResult result = weft::run(shell("echo out; echo error >&2; echo $ONLY $HOME.; cat; exit 7"));
  CHECK(result.end == End::exited);
  CHECK(result.code == 7);
  CHECK(result.output == "out\nerror\nthis .\n");
  CHECK_FALSE(result.succeeded());
  CHECK(weft::run(shell("true")).succeeded());
}

TEST_CASE("arguments are passed as they are") {
  const std::string odd = "a b'\"$(touch /tmp/never);\n*`id`\\";
  CHECK(weft::run({.arguments = {"/usr/bin/printf", "%s", odd}}).output == odd);
}

TEST_CASE("a signal and a program that can't be started are told apart") {
  const ProcessResult crashed = weft::run(shell("kill -SEGV $$"));
  CHECK(crashed.end == End::signalled);
  CHECK(crashed.code == SIGSEGV);
  CHECK(weft::describe(crashed, {}) == "was killed by signal 11 (Segmentation fault)");
  const ProcessResult missing = weft::run({.arguments = {"/no/such/program"}});
  CHECK(missing.end == End::not_started);
  CHECK(missing.code == ENOENT);
  CHECK_FALSE(missing.succeeded());
}

TEST_CASE("at the deadline the whole group is killed") {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = weft::run(shell("sleep 100 & echo $!; trap '' TERM; wait; sleep 100", 0.2));
  CHECK(result.end == End::timed_out);
  CHECK(weft::test::seconds_since(start) < 5);
  REQUIRE_FALSE(result.output.empty());
  for (int i = 0; i < 100 && is_alive(result.output.substr(0, result.output.size() - 1)); ++i) usleep(10000);
  CHECK_FALSE(is_alive(result.output.substr(0, result.output.size() - 1)));
}

TEST_CASE("a program that leaves a child behind with its output open ends when it ends") {
  const auto start = std::chrono::steady_clock::now();
  const ProcessResult result = weft::run(shell("sleep 100 & echo $!"));
  CHECK(result.succeeded());
  CHECK(weft::test::seconds_since(start) < 5);
  for (int i = 0; i < 100 && is_alive(result.output.substr(0, result.output.size() - 1)); ++i) usleep(10000);
  CHECK_FALSE(is_alive(result.output.substr(0, result.output.size() - 1)));
}

TEST_CASE("a program that closes its output and goes on is waited for") {
  const ProcessResult result = weft::run(shell("exec >&- 2>&-; sleep 0.2; exit 3"));
  CHECK(result.end == End::exited);
  CHECK(result.code == 3);
  CHECK(result.seconds >= 0.2);
}

TEST_CASE("output is bounded, and a program that writes more is not held up") {
  Command command = shell("yes | head -c 3000000; echo end >&2");
  command.output_limit = 1000;
  const ProcessResult result = weft::run(command);
  CHECK(result.succeeded());
  CHECK(result.output.size() == 1000);
}

TEST_CASE("many run at most so many at once, and results keep their order") {
  const Folder folder;
  std::vector<Command> commands;
  for (int i = 0; i < 6; ++i) {
    // Each counts how many run beside it.
    commands.push_back(shell(weft::concat_text("cd ", folder.path(), "; touch run", i,
                                               "; ls | grep -c run; sleep 0.1; rm run", i, "; exit ", i)));
  }
  const auto results = weft::run_all(commands, 2);
  for (int i = 0; i < 6; ++i) {
    CHECK(results[i].code == i);
    CHECK(results[i].output.size() == 2);
    CHECK(results[i].output[0] <= '2');
  }
  CHECK(weft::run_all({}, 2).empty());
}

TEST_CASE("nothing is left behind, and no descriptor is handed down") {
  const int kept_open = open("/dev/null", O_RDONLY);  // without O_CLOEXEC, as a host program may
  const std::size_t before = weft::test::open_descriptors();
  const ProcessResult result = weft::run({.arguments = {"/bin/ls", "/proc/self/fd"}});
  CHECK(result.output == "0\n1\n2\n3\n");  // 3 is the folder that ls reads
  weft::run({.arguments = {"/no/such/program"}});
  CHECK(weft::test::open_descriptors() == before);
  CHECK(waitpid(-1, nullptr, WNOHANG) == -1);  // no child, not even a zombie
  close(kept_open);
}

TEST_CASE("a host that ignores SIGCHLD, or has no standard streams, can run programs") {
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGCHLD, SIG_IGN);
    for (int i = 0; i < 3; ++i) close(i);
    const ProcessResult result = weft::run(shell("echo out; cat; exit 0"));
    _exit(result.end == End::lost && result.output == "out\n" ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("without descriptors it is not started, and says so") {
  const pid_t child = fork();
  if (child == 0) {
    const rlimit none{3, 3};
    setrlimit(RLIMIT_NOFILE, &none);
    for (int i = 3; i < 64; ++i) close(i);
    const ProcessResult result = weft::run(shell("true"));
    _exit(result.end == End::not_started && result.code == EMFILE ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}
