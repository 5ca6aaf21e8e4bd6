#include "trace/resume.hpp"

#include <algorithm>

#include "base/fail.hpp"
#include "base/storage.hpp"
#include "record/evaluate.hpp"
#include "record/record.hpp"
#include "trace/decisions.hpp"
#include "trace/execution.hpp"
#include "trace/segments.hpp"
#include "trace/specialize.hpp"
#include "trace/tracing.hpp"

namespace weft::detail {

Tensor number_outside(const Tensor& value) {
  const Node& node = *value.node();
  if (Storage* const storage = storage_of(value)) {
    retain(storage);
    return make_data(storage, node.type, node.loc);
  }
  Type type = node.type;
  type.shape = {};
  return Builder(node.loc, 0, 0).make(Op::constant, {}, node.attributes(), type);
}

Resumption::Resumption(CallContext call, const Specialization& specialization)
    : call_(call), specialization_(specialization) {
  // While the code runs, arguments that cannot be copied hold the trace's inputs.
  for (const Leaf& leaf : call.scratch.arguments.leaves)
    call.scratch.originals.push_back(holds_tensor(leaf.kind) ? leaf.tensor() : Tensor());
}

const Branch* Resumption::follow(const Recording& now, std::int64_t outcome, std::uint32_t first,
                                 std::vector<std::uint32_t>& differing) {
  LineVector<const Branch*>& path = call_.scratch.path;
  const Branch& from = path.empty() ? specialization_.root : *path.back();
  std::vector<std::uint32_t> fewest, some;
  for (const Branch* each = from.first.load(std::memory_order_acquire); each; each = each->next) {
    if (each->outcome != outcome || !each->holds(specialization_.guards, call_.scratch.words, call_.scratch.counts))
      continue;
    if (same_recording(*each->recording, now, each->lifted, first, some)) {
      path.push_back(each);
      differing.clear();
      return each;
    }
    if (some.empty()) continue;
    some.insert(some.end(), each->lifted.begin(), each->lifted.end());
    std::ranges::sort(some);
    if (fewest.empty() || some.size() < fewest.size()) fewest.swap(some);
  }
  differing.swap(fewest);
  return nullptr;
}

std::int64_t Resumption::run(std::span<const Tensor> lifted) {
  Scratch& scratch = call_.scratch;
  const Segment& segment = *scratch.path.back()->segment;
  if (segment.draws) hold_generator();
  scratch.kept.insert(scratch.kept.end(), lifted.begin(), lifted.end());
  std::int64_t outcome = 0;
  const OutsideTraces outside;
  naming_memory([&] { outcome = run_to_decision(call_, specialization_, segment); }, [] { return std::string(); },
                "compile", call_.loc);
  return outcome;
}

Tensor Resumption::hold_generator() {
  Scratch& scratch = call_.scratch;
  if (!lock_.owns_lock()) lock_ = std::unique_lock(call_.function.mutex);
  detail::hold_generator(scratch);
  return scratch.generator_state;
}

namespace {
// A branch holds what was recorded for it. Beyond this many, and beyond decision_limit, a call leaves nothing in the
// tree.
constexpr std::size_t most_branches = 2048;

bool is_full(const Specialization& specialization, const Function& function) {
  const auto pieces = static_cast<std::size_t>(std::max(function.options.decision_limit, 0));
  return specialization.pieces > pieces || specialization.branches.size() > most_branches;
}
// For one call: what follows the branches that it has found.
std::shared_ptr<Specialization> apart_from(const Specialization& specialization) {
  auto made = std::make_shared<Specialization>(specialization.id);
  made->guards = specialization.guards;
  made->symbolic = specialization.symbolic;
  made->resumable = true;
  return made;
}
}  // namespace

void resume(CallContext call, const Specialization& specialization) {
  Function& function = call.function;
  Scratch& scratch = call.scratch;
  Resumption resumption(call, specialization);
  TakenWay way;
  way.resumption = &resumption;
  TracedPath path = take_trace(call, specialization.guards.symbols, way);
  scratch.originals.clear();
  scratch.resumed = true;
  scratch.prototype = path.last().prototype;
  scratch.state_numbers = path.last().numbers;
  if (path.matched == path.steps.size()) return;
  std::shared_ptr<KernelJob> job;
  {
    const std::lock_guard lock(function.mutex);
    if (is_full(specialization, function)) {
      const auto apart = apart_from(specialization);
      add_steps(call, *apart, path, path.matched, apart->root, Backend::eager);
      scratch.temporary = apart;
      return;
    }
    const Branch* const from = scratch.path.empty() ? &specialization.root : scratch.path.back();
    job = add_steps(call, specialization, path, path.matched, *from, function.chosen.own);
    ++compilations_of_thread;
  }
  make_kernels(call, specialization, std::move(job));
}

}  // namespace weft::detail
