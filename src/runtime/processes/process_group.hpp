// The processes that run one program together, as a launcher has started them: who they are, and collectives over
// values in the host's memory. In: the launcher's variables, values. Out: values. Two ways exist: sockets (star.cpp),
// which need nothing but an address, and MPI (mpi.cpp). Invariant: every process does the same collectives in one
// order; where one does something else, or has ended, the others get an Error that says so.
#pragma once
#include <chrono>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/collective.hpp"
#include "base/fork.hpp"
#include "base/hash.hpp"

namespace weft::runtime {

// What a launcher says of a process.
struct Member {
  int rank = 0, size = 1, local_rank = 0;  // local_rank: among those of its machine
};

class ProcessGroup {
 public:
  explicit ProcessGroup(const Member& own) : own_(own), generation_(process_generation()) {}
  virtual ~ProcessGroup() = default;
  ProcessGroup(const ProcessGroup&) = delete;

  const Member& own() const { return own_; }
  // `count` elements of this process at `from`, the result at `to`: the same memory, or other memory. Sums are added in
  // the order of ranks or as the library does it, the same bits in every process.
  void run(const CollectiveOperation& what, std::int64_t count, const void* from, void* to);
  // What all processes give, by rank. `text` says what for, as "a barrier".
  std::vector<std::string> exchange(const std::string& given, const std::string& text);
  // Before a compiled function runs with these collectives, as describe() says each. The first time that a process does
  // these, all come here and compare. Throws Error in all of them where they do others, with the first that differs,
  // and where not all have come within `longest`: one that does not come may wait for ever, on its device, for what
  // these do later. Which processes compile the function does not matter, only what they do.
  void agree(std::span<const std::string> collectives, std::chrono::seconds longest = std::chrono::minutes(30));
  // From here on a process that dies ends the others, also while they wait for something else than a collective of the
  // host. Every process calls it.
  virtual void watch() {}
  // Closes what a forked child has of the connections: while it holds them, nobody notices that its parent dies.
  virtual void close() {}

 protected:
  // `text` says what is done, the same in every process.
  virtual void carry_out(const CollectiveOperation& what, std::int64_t count, const void* from, void* to,
                         const std::string& text) = 0;
  // `longest`: until all have come; zero: for ever.
  virtual std::vector<std::string> gather(const std::string& given, const std::string& text,
                                          std::chrono::seconds longest) = 0;

 private:
  template <class Do>
  auto in_order(Do each);

  const Member own_;
  const std::uint32_t generation_;  // of the process that is the member: its forked children are none
  std::mutex mutex_;
  std::string broken_;                             // why nothing can be done any more
  std::unordered_set<Digest, DigestHash> agreed_;  // the collectives of functions, which all processes do
};

// Joins the group that the environment names (join.cpp), where it names one of several processes. Once: further calls
// do nothing. Throws Error where a variable is missing or makes no sense, and where the others can't be reached.
void join_process_group();
// The group from here on.
void set_process_group(std::unique_ptr<ProcessGroup> group);
// Of this process, alone before it has joined.
Member own_member();
// Null: this process is alone. Each collective that is recorded asks for it.
ProcessGroup* process_group();
// Whether somebody has asked for it while there was none.
bool was_alone();
// The group; throws Error where it has not so many processes.
ProcessGroup& group_of(int processes);

std::unique_ptr<ProcessGroup> join_by_sockets(const Member& own, const std::string& host, const std::string& port);
std::unique_ptr<ProcessGroup> join_by_mpi(const Member& own);

// "an all_reduce of 12 f32"
std::string describe(const CollectiveOperation& what, std::int64_t count);
// Throws the Error of processes that do different things; `texts`: by rank.
[[noreturn]] void throw_difference(const std::vector<std::string>& texts);
// "rank 2 has not come to a barrier within 5 seconds"
std::string late(const std::string& who, const std::string& text, std::chrono::seconds longest);

// Runs at the end of this process with its exit status, where it ends by exit() or by returning from main. Not in a
// forked child. Called at most once.
void at_end(void (*call)(int status));

}  // namespace weft::runtime
