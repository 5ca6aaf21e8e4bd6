// A call whose way through the tree is traced again: it goes on where no branch is yet, or Check compares it.
#include <algorithm>

#include "base/fail.hpp"
#include "base/log.hpp"
#include "trace/decisions.hpp"
#include "trace/kernel_job.hpp"
#include "trace/segments.hpp"
#include "trace/select.hpp"
#include "trace/specialize.hpp"
#include "trace/tracing.hpp"

namespace weft::detail {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// The user's error where one of the first steps of a trace is not what the branches have.
void compare(const CallContext& call, const TracedPath& again, std::span<const Branch* const> branches) {
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const TraceResult& traced = again.steps[i].traced;
    const std::string structure = traced.structure();
    const std::string& earlier = branches[i]->segment->structure;
    if (structure == earlier) continue;
    std::vector<std::string> before = lines_of(earlier), now = lines_of(structure);
    std::size_t line = 0;
    while (line < before.size() && line < now.size() && before[line] == now[line]) ++line;
    std::string was = line < before.size() ? before[line] : "(nothing)",
                is = line < now.size() ? now[line] : "(nothing)";
    // The line of an operation begins with its number; a node with a body takes several lines.
    Loc loc = call.loc;
    std::string prefix = is.substr(0, is.find(' ') + 1);
    for (const Tensor& node : traced.graph.nodes)
      if ("%" + std::to_string(traced.graph.number(node)) + " " == prefix && node.node()->op != Op::input)
        loc = node.node()->loc;
    fail(title(call.function), loc,
         "the function does something else than when it was compiled: it reads what guards cannot "
         "see (a global, a captured pointer). Pass it as an argument. The first operation that differs was `",
         was, "`, is `", is, "`");
  }
}

TakenWay way_of(const Scratch& scratch) {
  TakenWay way;
  way.branches.assign(scratch.path.begin(), scratch.path.end());
  way.outcomes.assign(scratch.outcomes.begin(), scratch.outcomes.end());
  way.kept.assign(scratch.kept.begin(), scratch.kept.end());
  way.generator = scratch.generator_state;
  return way;
}

// Throws where the function does something else.
void compare_again(CallContext call, const Specialization& specialization) {
  for (TakenWay& way : ways_of_sides(way_of(call.scratch))) {
    way.kept.clear();
    way.to_the_end = true;
    const TracedPath again = take_trace(call, specialization.guards.symbols, way);
    if (again.steps.size() != way.branches.size())
      fail(title(call.function), call.loc,
           "the function decides otherwise than when it was compiled, for the same values: it reads what guards cannot "
           "see (a global, a captured pointer). Pass it as an argument");
    compare(call, again, way.branches);
  }
}

// Drops a tree that has too many branches. The function's mutex is held.
void drop_large_tree(CallContext call, const Specialization& specialization) {
  if (specialization.branches.size() < call.function.most_branches) return;
  logging::warn_once(concat_text(title(call.function),
                                 ": its decisions have taken so many ways that their tree is dropped, and "
                                 "grows again"));
  if (auto dropped = call.function.drop(specialization)) {
    call.function.outgrown.push_back(dropped->guards);
    call.scratch.temporary = std::move(dropped);
  }
}

// The function has come to a value that flows into host code, on a way that was not traced before. The tree so far is
// followed without its code: another one takes its place.
std::shared_ptr<Specialization> resumable_in_place_of(CallContext call, const Specialization& earlier) {
  Function& function = call.function;
  auto made = std::make_shared<Specialization>(earlier.id == function.eager_id ? earlier.id : new_id());
  made->guards = earlier.guards;
  made->symbolic = earlier.symbolic;
  made->number = earlier.number;
  made->resumable = true;
  if (function.drop(earlier)) {
    made->last_used.store(function.tick.fetch_add(1) + 1);
    function.add(made);
  } else {
    call.scratch.temporary = made;
  }
  return made;
}

}  // namespace

const Specialization* extend(CallContext call, const Specialization& specialization) {
  Function& function = call.function;
  Scratch& scratch = call.scratch;
  std::unique_lock lock(function.mutex);
  const Branch* const from = scratch.path.back();
  if (const Branch* found = from->find(scratch.outcomes.back(), specialization.guards, scratch.words)) {
    scratch.path.push_back(found);
    return &specialization;
  }
  if (call.stance != Stance::compile &&
      !may_compile(call, digest_of(scratch),
                   concat_text("what was decided ", to_string(from->segment->traced.decision->loc), " is new")))
    return nullptr;
  TracedPath path = take_trace(call, specialization.guards.symbols, way_of(scratch));
  const std::size_t begin = scratch.path.size();
  if (path.steps.size() <= begin)
    fail(title(function), call.loc,
         "the function decides otherwise than when it was compiled, for the same values: it reads what guards cannot "
         "see (a global, a captured pointer). Pass it as an argument");
  compare(call, path, scratch.path);
  const Backend backend = specialization.id == function.eager_id ? Backend::eager : function.chosen.own;
  if (path.resumable) {
    const std::shared_ptr<Specialization> made = resumable_in_place_of(call, specialization);
    scratch.path.clear();
    auto job = add_steps(call, *made, path, 0, made->root, backend);
    ++compilations_of_thread;
    lock.unlock();
    make_kernels(call, *made, std::move(job));
    return made.get();
  }
  auto job = add_steps(call, specialization, path, begin, *from, backend);
  ++compilations_of_thread;
  drop_large_tree(call, specialization);
  lock.unlock();
  make_kernels(call, specialization, std::move(job));
  return &specialization;
}

void check_again(CallContext call, const Specialization& specialization) {
  std::lock_guard lock(call.function.mutex);
  try {
    compare_again(call, specialization);
  } catch (...) {
    if (auto dropped = call.function.drop(specialization)) call.scratch.temporary = std::move(dropped);
    throw;
  }
}

}  // namespace weft::detail
