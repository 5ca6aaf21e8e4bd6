#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/fail.hpp"
#include "base/fork.hpp"
#include "runtime/processes/process_group.hpp"

namespace weft::runtime {

namespace {

constexpr const char* init = "distributed::init";

std::optional<int> number_of(const char* variable) {
  const char* const text = std::getenv(variable);
  if (!text || !*text) return {};
  int number = 0;
  const char* const end = text + std::strlen(text);
  if (const auto read = std::from_chars(text, end, number); read.ec != std::errc() || read.ptr != end || number < 0)
    fail(init, {}, variable, "=", text, " is no number of processes");
  return number;
}
int required(const char* variable) {
  const std::optional<int> number = number_of(variable);
  if (!number)
    fail(init, {}, "the environment has no ", variable,
         ": a launcher sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, and of several machines LOCAL_RANK");
  return *number;
}
std::string address_part(const char* variable) {
  const char* const text = std::getenv(variable);
  if (!text || !*text)
    fail(init, {}, "the environment has no ", variable, ", where the process of rank 0 can be reached");
  return text;
}
void check(const Member& own) {
  if (own.size < 1 || own.rank >= own.size)
    fail(init, {}, "rank ", own.rank, " is none of ", counted(own.size, "process", "processes"));
  if (own.size > 1 && was_alone())
    fail(init, {}, "a collective came before: it knew of one process. init() comes first");
}

std::unique_ptr<ProcessGroup> join() {
  if (std::getenv("RANK") || std::getenv("WORLD_SIZE")) {
    Member own{required("RANK"), required("WORLD_SIZE")};
    own.local_rank = number_of("LOCAL_RANK").value_or(own.rank);
    check(own);
    if (own.size == 1) return nullptr;
    std::string port = address_part("MASTER_PORT");
    // torchrun's own store has that port then; the workers' is the next one.
    const char* const store = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
    if (store && std::string_view(store) == "True") port = std::to_string(required("MASTER_PORT") + 1);
    return join_by_sockets(own, address_part("MASTER_ADDR"), port);
  }
  if (std::getenv("OMPI_COMM_WORLD_SIZE")) {
    Member own{required("OMPI_COMM_WORLD_RANK"), required("OMPI_COMM_WORLD_SIZE")};
    own.local_rank = number_of("OMPI_COMM_WORLD_LOCAL_RANK").value_or(own.rank);
    check(own);
    return own.size == 1 ? nullptr : join_by_mpi(own);
  }
  if (number_of("PMI_SIZE").value_or(1) > 1)
    fail(init, {},
         "of MPI only Open MPI is known, and this was started by another launcher: set RANK, WORLD_SIZE, "
         "MASTER_ADDR and MASTER_PORT");
  return nullptr;
}

// What runs at the end of the process. A forked child inherits it, and is no member of the group.
struct AtEnd {
  void (*call)(int status) = nullptr;
  std::uint32_t generation = 0;
};
constinit AtEnd registered;
void run_at_end(int status) {
  if (process_generation() == registered.generation) registered.call(status);
}

}  // namespace

void join_process_group() {
  static constinit std::mutex mutex;
  static constinit bool is_joined = false;
  const std::lock_guard lock(mutex);
  if (is_joined) return;
  if (std::unique_ptr<ProcessGroup> group = join()) set_process_group(std::move(group));
  is_joined = true;
}

void at_end(void (*call)(int status)) {
  registered = {call, process_generation()};
#ifdef __GLIBC__
  on_exit([](int status, void*) { run_at_end(status); }, nullptr);
#else
  std::atexit([] { run_at_end(0); });
#endif
}

}  // namespace weft::runtime
