#include "runtime/processes/process_group.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <sstream>

#include "base/fail.hpp"
#include "runtime/processes/collective_step.hpp"

namespace weft::runtime {

namespace {

struct Joined {
  std::atomic<ProcessGroup*> group{nullptr};  // never destroyed: what ends with the process may still ask for it
  std::atomic<bool> was_asked{false};
};
constinit Joined joined;

// What each process does where this one and that of rank 0 do different things first. `all`: lines, by rank.
std::vector<std::string> first_difference(const std::vector<std::string>& all, std::size_t other) {
  std::vector<std::vector<std::string>> lines;
  for (const std::string& each : all) {
    std::istringstream from(each);
    lines.emplace_back();
    for (std::string line; std::getline(from, line);) lines.back().push_back(line);
  }
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(lines[0], lines[other]).in1 - lines[0].begin());
  std::vector<std::string> texts;
  for (const std::vector<std::string>& own : lines)
    texts.push_back(at < own.size()
                        ? concat_text(own[at], " (collective ", at + 1, " of ", own.size(), " of a compiled function)")
                        : concat_text("the end of a compiled function of ",
                                      counted(static_cast<std::int64_t>(own.size()), "collective", "collectives")));
  return texts;
}

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
  return in_order([&] { return gather(given, text, std::chrono::seconds(0)); });
}
void ProcessGroup::agree(std::span<const std::string> collectives, std::chrono::seconds longest) {
  std::string own;
  for (const std::string& each : collectives) own += each + "\n";
  in_order([&] {
    if (agreed_.contains(digest(own))) return;
    const auto all = gather(own, "the first run of a compiled function with collectives", longest);
    const auto other = std::ranges::find_if(all, [&](const std::string& each) { return each != all[0]; });
    if (other != all.end()) throw_difference(first_difference(all, static_cast<std::size_t>(other - all.begin())));
    agreed_.insert(digest(own));
  });
}

void set_process_group(std::unique_ptr<ProcessGroup> group) {
  joined.group.store(group.release(), std::memory_order_release);
  compare_collectives = [](std::span<const std::string> collectives) { joined.group.load()->agree(collectives); };
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

std::string late(const std::string& who, const std::string& text, std::chrono::seconds longest) {
  return concat_text(who, " has not come to ", text, " within ", counted(longest.count(), "second", "seconds"));
}
void throw_difference(const std::vector<std::string>& texts) {
  std::size_t other = 1;
  while (other + 1 < texts.size() && texts[other] == texts[0]) ++other;
  fail("distributed", {}, "the processes do different things: rank 0 is at ", texts[0], ", rank ", other, " at ",
       texts[other], ". All run the same program, on values of the same shapes and dtypes");
}

}  // namespace weft::runtime
