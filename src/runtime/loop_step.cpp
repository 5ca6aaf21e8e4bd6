#include "runtime/loop.hpp"
#include "runtime/plan_file.hpp"
#include "runtime/steps.hpp"

namespace weft::runtime {

std::unique_ptr<Runnable> make_loop(LoopKind kind, const LoopDescription& loop, std::span<const Plan> bodies,
                                    NumberTable& numbers) {
  if (kind == LoopKind::scan) return std::make_unique<ScanStep>(loop, bodies, numbers);
  if (kind == LoopKind::while_loop) return std::make_unique<WhileStep>(loop, bodies, numbers);
  return std::make_unique<CondStep>(loop, bodies, numbers);
}

std::shared_ptr<const StoredStep> StoredLoop::read(FieldReader& from, const StepReader& inner) {
  auto step = std::make_shared<StoredLoop>();
  LoopDescription& loop = step->loop_;
  from(step->kind_, loop, step->cost_);
  const bool fits = step->kind_ <= LoopKind::cond && loop.in_place.size() == loop.carries &&
                    loop.carries <= loop.operands.size() && loop.carries <= loop.results.size() &&
                    loop.scanned <= loop.operands.size() - loop.carries && loop.asked >= -1 &&
                    loop.asked < static_cast<std::int64_t>(loop.carries);
  if (!fits) throw Malformed();
  const int bodies = step->kind_ == LoopKind::scan ? 1 : 2;
  const bool chooses = step->kind_ == LoopKind::cond;
  if (chooses && loop.operands.empty()) throw Malformed();
  for (int i = 0; i < bodies; ++i) {
    const Plan& body = step->bodies_.emplace_back(read_plan(from, inner));
    const bool is_condition = step->kind_ == LoopKind::while_loop && i == 0;
    const std::size_t given = loop.operands.size() - (chooses ? 1 : 0), taken = is_condition ? 1 : loop.results.size();
    if (static_cast<std::size_t>(body.argument_count) > given || static_cast<std::size_t>(body.result_count) > taken)
      throw Malformed();
  }
  return step;
}

void StoredLoop::write(FieldWriter& to, LoopKind kind, const LoopDescription& loop, const StepCost& cost,
                       std::span<const Plan> bodies) {
  to(kind, loop, cost);
  for (const Plan& body : bodies) write_plan(to, body);
}

std::unique_ptr<Runnable> StoredLoop::prepare(const Preparation& preparation) const {
  std::vector<Plan> bodies = bodies_;
  for (Plan& body : bodies) body.functions = preparation.functions;
  return make_loop(kind_, loop_, bodies, preparation.numbers);
}

const NamedStep steps::loop{StoredLoop::name, StoredLoop::read};

}  // namespace weft::runtime
