#include "runtime/processes/process_group.hpp"

#include <pthread.h>

#include <atomic>

#include "base/fail.hpp"

namespace weft::runtime {

namespace {

struct Joined {
  std::atomic<ProcessGroup*> group{nullptr};  // never destroyed: what ends with the process may still ask for it
  std::atomic<bool> was_asked{false};
};
constinit Joined joined;

}  // namespace

template <class Do>
auto ProcessGroup::in_order(Do each) {
  if (process_generation() != generation_)
    fail("distributed", {}, "a forked child of rank ", own_.rank, " is no member of the group: its parent is");
  const std::lock_guard lock(mutex_);
  if (!broken_.empty()) throw Error(broken_.c_str());
  try {
    return each();
  } catch (const std::exception& error) {
    broken_ = error.what();
    throw;
  }
}

void ProcessGroup::run(const CollectiveOperation& what, std::int64_t count, const void* from, void* to) {
  in_order([&] { carry_out(what, count, from, to, describe(what, count)); });
}
std::vector<std::string> ProcessGroup::exchange(const std::string& given, const std::string& text) {
  return in_order([&] { return gather(given, text); });
}

void set_process_group(std::unique_ptr<ProcessGroup> group) {
  joined.group.store(group.release(), std::memory_order_release);
  pthread_atfork(nullptr, nullptr, [] { joined.group.load()->close(); });
}
bool was_alone() { return joined.was_asked.load(); }
Member own_member() {
  const ProcessGroup* const group = joined.group.load(std::memory_order_acquire);
  return group ? group->own() : Member();
}
ProcessGroup* process_group() {
  ProcessGroup* const group = joined.group.load(std::memory_order_acquire);
  if (!group) joined.was_asked.store(true, std::memory_order_relaxed);
  return group;
}
ProcessGroup& group_of(int processes) {
  ProcessGroup* const group = joined.group.load(std::memory_order_acquire);
  const int size = group ? group->own().size : 1;
  if (size != processes)
    fail("distributed", {}, "a collective of ", counted(processes, "process", "processes"), " in a group of ", size,
         ": the program was recorded for another number, or distributed::init() was not called");
  return *group;
}

std::string describe(const CollectiveOperation& what, std::int64_t count) {
  using Kind = CollectiveOperation::Kind;
  const std::string of = concat_text(" of ", count, " ", info(what.dtype).name);
  switch (what.kind) {
    case Kind::all_reduce: return "an all_reduce" + of;
    case Kind::broadcast: return concat_text("a broadcast", of, " from rank ", what.root);
    case Kind::reduce_to_root: return concat_text("a sum", of, " for rank ", what.root);
    case Kind::all_gather: return "an all_gather" + of;
    case Kind::reduce_scatter: return "a reduce_scatter" + of;
  }
  return of;
}

void throw_difference(const std::vector<std::string>& texts) {
  std::size_t other = 1;
  while (other + 1 < texts.size() && texts[other] == texts[0]) ++other;
  fail("distributed", {}, "the processes do different things: rank 0 is at ", texts[0], ", rank ", other, " at ",
       texts[other], ". All run the same program, on values of the same shapes and dtypes");
}

}  // namespace weft::runtime
